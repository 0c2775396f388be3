"""Lamina: a folder of documents and one manifest become a versioned, queryable index.

Reading order: `curate.py` (the run, top to bottom), one stage (`chunk/`), one adapter (`adapters/index_local.py`),
then `search.py` (the read side). Glossary:

context     what is curated: a slug, a source tree, a manifest, a recipe, a live version
source      one staged file, known by its path relative to the source root
part        a document inside a source, such as a mail's attachment; its records go with the source
leg         one of the two things a manifest builds: chunks, artifacts
chunk       a passage of a parsed document: text, span, heading path, pages, token count
record      what the index holds for a chunk: dense and sparse vectors and flat metadata, under a write-once id
recipe      choices that change results but that the manifest doesn't name: resolved embedder, parsers, tokenizer
version     positive integer; the live version is what readers see; 0 = never curated
generation  the namespaces built with one dense model and one sparse encoder
run, unit   one execution; a leased slice of it: one stage over a batch of sources
ledger      the tables that say what is true; everything else is repaired to match them
snapshot    everything that is live at one version
"""
