"""`ledger.Session` over one open block of either database."""

from __future__ import annotations

from pipeline.adapters.ledger_database import Database
from pipeline.adapters.ledger_sql_dump import SqlDump
from pipeline.adapters.ledger_sql_fleet import SqlLanes, SqlUnits
from pipeline.adapters.ledger_sql_knowledge import SqlKnowledge
from pipeline.adapters.ledger_sql_publications import SqlPublications
from pipeline.adapters.ledger_sql_purges import SqlPurges
from pipeline.adapters.ledger_sql_quarantine import SqlQuarantine
from pipeline.adapters.ledger_sql_records import SqlRecords
from pipeline.adapters.ledger_sql_runs import SqlContexts, SqlRuns, SqlWork
from pipeline.adapters.ledger_sql_sources import SqlFiles, SqlSources, SqlVersions


class SqlSession:
    """`ledger.Session` over one connection."""

    def __init__(self, db: Database) -> None:
        self.contexts = SqlContexts(db)
        self.runs = SqlRuns(db)
        self.units = SqlUnits(db)
        self.lanes = SqlLanes(db)
        self.work = SqlWork(db)
        self.sources = SqlSources(db)
        self.records = SqlRecords(db)
        self.files = SqlFiles(db)
        self.versions = SqlVersions(db)
        self.knowledge = SqlKnowledge(db)
        self.publications = SqlPublications(db)
        self.quarantine = SqlQuarantine(db)
        self.purges = SqlPurges(db)
        self.dump = SqlDump(db)
