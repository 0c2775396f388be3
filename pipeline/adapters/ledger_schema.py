"""The ledger's tables, as numbered migrations in the SQL that SQLite and PostgreSQL share.

Types are TEXT, BIGINT and DOUBLE PRECISION only. A migration is never edited once released; a new one is appended.
Intervals are half-open: a row is visible at V when added <= V < removed; OPEN is 2^53 - 1.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE context (
            slug TEXT PRIMARY KEY, kind TEXT NOT NULL, root TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL,
            live_version BIGINT NOT NULL, epoch BIGINT NOT NULL, highest_version BIGINT NOT NULL,
            redispatch_count BIGINT NOT NULL)""",
        """CREATE TABLE run (
            id TEXT PRIMARY KEY, context TEXT NOT NULL, kind TEXT NOT NULL, cause TEXT NOT NULL, state TEXT NOT NULL,
            force BIGINT NOT NULL, created_by TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL, input TEXT NOT NULL,
            manifest TEXT NOT NULL, recipe TEXT NOT NULL, base_version BIGINT NOT NULL, base_epoch BIGINT NOT NULL,
            number BIGINT NOT NULL, generation BIGINT NOT NULL, fence BIGINT NOT NULL, owner TEXT NOT NULL,
            lease_until DOUBLE PRECISION NOT NULL, started_at DOUBLE PRECISION NOT NULL,
            active_at DOUBLE PRECISION NOT NULL, ended_at DOUBLE PRECISION NOT NULL, cancel_requested BIGINT NOT NULL,
            output TEXT NOT NULL, error TEXT NOT NULL,
            notes TEXT NOT NULL)""",
        "CREATE UNIQUE INDEX run_active ON run (context) WHERE state IN ('running', 'sealed', 'flipped')",
        "CREATE INDEX run_created ON run (context, created_at)",
        """CREATE TABLE unit (
            run TEXT NOT NULL, stage TEXT NOT NULL, batch BIGINT NOT NULL, state TEXT NOT NULL, fence BIGINT NOT NULL,
            owner TEXT NOT NULL, lease_until DOUBLE PRECISION NOT NULL, attempts BIGINT NOT NULL, size BIGINT NOT NULL,
            claimed_at DOUBLE PRECISION NOT NULL, ended_at DOUBLE PRECISION NOT NULL, embed_tokens BIGINT NOT NULL,
            PRIMARY KEY (run, stage, batch))""",
        """CREATE TABLE work (
            run TEXT NOT NULL, path TEXT NOT NULL, batch BIGINT NOT NULL, change TEXT NOT NULL, size BIGINT NOT NULL,
            mtime_ns BIGINT NOT NULL, hash TEXT NOT NULL, status TEXT NOT NULL, code TEXT NOT NULL,
            reason TEXT NOT NULL, fingerprint TEXT NOT NULL, parse_key TEXT NOT NULL, chunk_key TEXT NOT NULL,
            chunks BIGINT NOT NULL, screened TEXT NOT NULL, chunks_created BIGINT NOT NULL,
            chunks_updated BIGINT NOT NULL, PRIMARY KEY (run, path))""",
        "CREATE INDEX work_batch ON work (run, batch)",
        """CREATE TABLE source (
            context TEXT NOT NULL, path TEXT NOT NULL, added BIGINT NOT NULL, removed BIGINT NOT NULL,
            hash TEXT NOT NULL, seen_hash TEXT NOT NULL, size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL,
            status TEXT NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL, fingerprint TEXT NOT NULL,
            chunks BIGINT NOT NULL, curated_at DOUBLE PRECISION NOT NULL, PRIMARY KEY (context, path, added))""",
        """CREATE TABLE stat (
            context TEXT NOT NULL, path TEXT NOT NULL, size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL,
            change_ns BIGINT NOT NULL, hash TEXT NOT NULL, checked_at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (context, path))""",
        """CREATE TABLE source_removed (
            context TEXT NOT NULL, path TEXT NOT NULL, version BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (context, path))""",
        """CREATE TABLE record (
            context TEXT NOT NULL, id TEXT NOT NULL, logical_id TEXT NOT NULL, path TEXT NOT NULL,
            position BIGINT NOT NULL, content TEXT NOT NULL, namespace TEXT NOT NULL, added BIGINT NOT NULL,
            removed BIGINT NOT NULL, copy_of TEXT, PRIMARY KEY (context, id))""",
        "CREATE INDEX record_path ON record (context, path, removed)",
        "CREATE INDEX record_added ON record (context, added, id)",
        "CREATE INDEX record_closed ON record (context, removed) WHERE removed < 9007199254740991",
        """CREATE TABLE removal (
            run TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (run, kind, id))""",
        """CREATE TABLE file (
            context TEXT NOT NULL, path TEXT NOT NULL, added BIGINT NOT NULL, removed BIGINT NOT NULL,
            source TEXT NOT NULL, blob TEXT NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (context, path, added))""",
        "CREATE INDEX file_source ON file (context, source, removed)",
        "CREATE INDEX file_blob ON file (context, blob)",
        """CREATE TABLE version (
            context TEXT NOT NULL, number BIGINT NOT NULL, run TEXT NOT NULL, generation BIGINT NOT NULL,
            manifest TEXT NOT NULL, recipe TEXT NOT NULL, state TEXT NOT NULL, readable BIGINT NOT NULL,
            claimed_at DOUBLE PRECISION NOT NULL, live_at DOUBLE PRECISION NOT NULL, records BIGINT NOT NULL,
            PRIMARY KEY (context, number))""",
        """CREATE TABLE move (
            context TEXT NOT NULL, epoch BIGINT NOT NULL, version BIGINT NOT NULL, run TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL, PRIMARY KEY (context, epoch))""",
        """CREATE TABLE term_count (
            context TEXT NOT NULL, generation BIGINT NOT NULL, term BIGINT NOT NULL, version BIGINT NOT NULL,
            delta BIGINT NOT NULL, PRIMARY KEY (context, generation, term, version))""",
        """CREATE TABLE pin (
            context TEXT NOT NULL, id TEXT NOT NULL, version BIGINT NOT NULL, until DOUBLE PRECISION NOT NULL,
            created_at DOUBLE PRECISION NOT NULL, PRIMARY KEY (context, id))""",
        """CREATE TABLE tombstone (
            context TEXT NOT NULL, id TEXT NOT NULL, namespace TEXT NOT NULL, since DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (context, id))""",
    ),
    (
        "ALTER TABLE work ADD COLUMN warnings TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE source ADD COLUMN warnings TEXT NOT NULL DEFAULT ''",
    ),
    (
        *(
            f"ALTER TABLE {table} ADD COLUMN artifact_{column} TEXT NOT NULL DEFAULT ''"
            for table, columns in (
                ("work", ("status", "reason", "key", "notes")),
                ("source", ("status", "reason", "key")),
            )
            for column in columns
        ),
        """CREATE TABLE statement (
            context TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, type TEXT NOT NULL,
            name TEXT NOT NULL, seq BIGINT NOT NULL, data TEXT NOT NULL, added BIGINT NOT NULL,
            removed BIGINT NOT NULL, PRIMARY KEY (context, id, added))""",
        "CREATE INDEX statement_path ON statement (context, path, removed)",
        "CREATE INDEX statement_name ON statement (context, type, name, removed)",
        """CREATE TABLE name_key (
            context TEXT NOT NULL, type TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
            PRIMARY KEY (context, type, key, name))""",
        "CREATE INDEX name_key_name ON name_key (context, type, name, key)",
        """CREATE TABLE subject (
            context TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
            documents BIGINT NOT NULL, mentions BIGINT NOT NULL, membership TEXT NOT NULL, data TEXT NOT NULL,
            added BIGINT NOT NULL, removed BIGINT NOT NULL, PRIMARY KEY (context, id, added))""",
        "CREATE INDEX subject_type ON subject (context, type, removed)",
        """CREATE TABLE member (
            context TEXT NOT NULL, id TEXT NOT NULL, subject TEXT NOT NULL, path TEXT NOT NULL,
            added BIGINT NOT NULL, removed BIGINT NOT NULL, PRIMARY KEY (context, id, added))""",
        "CREATE INDEX member_subject ON member (context, subject, removed)",
        """CREATE TABLE artifact (
            context TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, scope TEXT NOT NULL,
            format TEXT NOT NULL, basis TEXT NOT NULL, membership TEXT NOT NULL, file TEXT NOT NULL,
            data TEXT NOT NULL, added BIGINT NOT NULL, removed BIGINT NOT NULL, PRIMARY KEY (context, id, added))""",
        "CREATE INDEX artifact_type ON artifact (context, type, name)",
        """CREATE TABLE edge (
            context TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
            path TEXT NOT NULL, data TEXT NOT NULL, added BIGINT NOT NULL, removed BIGINT NOT NULL,
            PRIMARY KEY (context, id, added))""",
        "CREATE INDEX edge_source ON edge (context, source)",
        "CREATE INDEX edge_target ON edge (context, target)",
        *(
            f"CREATE INDEX {table}_added ON {table} (context, added)"
            for table in ("statement", "subject", "member", "artifact", "edge")
        ),
        """CREATE TABLE decision (
            context TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, type TEXT NOT NULL, name_left TEXT NOT NULL,
            name_right TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, made_by TEXT NOT NULL, applied BIGINT NOT NULL,
            withdrawn BIGINT NOT NULL, PRIMARY KEY (context, id))""",
        """CREATE TABLE spend (
            run TEXT NOT NULL, model TEXT NOT NULL, tier TEXT NOT NULL, calls BIGINT NOT NULL, prompt BIGINT NOT NULL,
            completion BIGINT NOT NULL, cache_read BIGINT NOT NULL, cache_write BIGINT NOT NULL,
            PRIMARY KEY (run, model, tier))""",
        """CREATE TABLE visited (
            run TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (run, type, name))""",
    ),
    (
        "ALTER TABLE unit ADD COLUMN failures BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE unit ADD COLUMN not_before DOUBLE PRECISION NOT NULL DEFAULT 0",
        "CREATE INDEX unit_open ON unit (run, stage, batch) WHERE state <> 'done'",
        """CREATE TABLE lane (
            run TEXT NOT NULL, lane BIGINT NOT NULL, stage TEXT NOT NULL, seq BIGINT NOT NULL, state TEXT NOT NULL,
            owner TEXT NOT NULL, since DOUBLE PRECISION NOT NULL, until DOUBLE PRECISION NOT NULL,
            silent BIGINT NOT NULL, PRIMARY KEY (run, lane))""",
        "ALTER TABLE work ADD COLUMN job TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX run_at_work ON run (owner) WHERE state IN ('running', 'sealed', 'flipped')",
    ),
    (
        """CREATE TABLE publication (
            context TEXT NOT NULL, target TEXT NOT NULL, version BIGINT NOT NULL, aim BIGINT NOT NULL,
            cursor_at TEXT NOT NULL, fields TEXT NOT NULL, changed_at DOUBLE PRECISION NOT NULL, holder TEXT NOT NULL, fence BIGINT NOT NULL,
            rest_until DOUBLE PRECISION NOT NULL, error TEXT NOT NULL, PRIMARY KEY (context, target))""",
    ),
    (
        """CREATE TABLE source_tombstone (
            context TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (context, path))""",
    ),
    (
        """CREATE TABLE quarantine (
            context TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL, pipeline TEXT NOT NULL,
            error TEXT NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL, since DOUBLE PRECISION NOT NULL,
            spared BIGINT NOT NULL, PRIMARY KEY (context, id))""",
    ),
    ("CREATE INDEX source_hash ON source (context, hash)",),
    (
        "ALTER TABLE version ADD COLUMN purged BIGINT NOT NULL DEFAULT 0",
        """CREATE TABLE purge (
            context TEXT NOT NULL, path TEXT NOT NULL, upto BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (context, path))""",
    ),
)

CONTEXT_TABLES = (
    "source",
    "stat",
    "source_removed",
    "record",
    "file",
    "version",
    "move",
    "term_count",
    "pin",
    "tombstone",
    "statement",
    "name_key",
    "subject",
    "member",
    "artifact",
    "edge",
    "decision",
    "publication",
    "source_tombstone",
    "quarantine",
    "purge",
)
"""Tables with a `context` column that `Contexts.delete` empties; runs, units and work go by run."""

RUN_TABLES = ("unit", "work", "removal", "visited", "lane")
"""Tables keyed by run."""
