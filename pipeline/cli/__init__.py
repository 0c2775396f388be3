"""The command line: one file per group of verbs. It holds no rules; flows do, and `console` prints.

`app.py` has the table of verbs and the exit statuses: read it first. Flows are imported inside the verbs that need
them, so that a verb which looks at the ledger doesn't pay for tokenizers and models.
"""
