"""Programming languages: which one a file is in, and which grammar or separators know its structure."""

from __future__ import annotations

import re

LANGUAGE_OF_EXTENSION = {
    "py": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
    "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx", "go": "go", "rs": "rust",
    "java": "java", "kt": "kotlin", "kts": "kotlin", "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "cxx": "cpp",
    "hh": "cpp", "hpp": "cpp", "hxx": "cpp", "ipp": "cpp", "cs": "csharp", "rb": "ruby", "rake": "ruby", "php": "php",
    "swift": "swift", "scala": "scala", "sc": "scala", "sh": "bash", "bash": "bash", "zsh": "bash", "ksh": "bash",
    "ps1": "powershell", "psm1": "powershell", "sql": "sql", "lua": "lua", "r": "r", "jl": "julia", "pl": "perl",
    "pm": "perl", "sol": "solidity", "vy": "vyper", "css": "css", "scss": "scss", "less": "less", "vue": "html",
    "svelte": "html", "json": "json", "webmanifest": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml",
    "ini": "ini", "cfg": "ini", "conf": "ini", "properties": "ini", "xml": "xml", "xsd": "xml", "xsl": "xml",
    "xslt": "xml", "svg": "xml", "rss": "xml", "plist": "xml", "proto": "protobuf", "tf": "hcl", "tfvars": "hcl",
    "hcl": "hcl", "dart": "dart", "ex": "elixir", "exs": "elixir", "hs": "haskell", "clj": "clojure",
    "erl": "erlang", "ml": "ocaml", "zig": "zig", "nim": "nim", "graphql": "graphql", "groovy": "groovy",
    "gradle": "groovy", "m": "objectivec", "mm": "objectivec", "vb": "visualbasic", "bas": "visualbasic",
    "cob": "cobol", "cbl": "cobol", "cmake": "cmake", "mk": "make", "bat": "batch", "f90": "fortran", "asm": "assembly",
}  # fmt: skip

LANGUAGE_OF_NAME = {
    "makefile": "make", "gnumakefile": "make", "dockerfile": "dockerfile", "containerfile": "dockerfile",
    "jenkinsfile": "groovy", "gemfile": "ruby", "rakefile": "ruby", "vagrantfile": "ruby", "cmakelists.txt": "cmake",
    ".bashrc": "bash", ".profile": "bash", ".zshrc": "bash", ".gitconfig": "ini", ".editorconfig": "ini",
}  # fmt: skip
"""Lower-case names of files whose ending says nothing, or something else."""

_INTERPRETERS = (
    ("python", "python"), ("node", "javascript"), ("deno", "typescript"), ("ruby", "ruby"), ("perl", "perl"),
    ("php", "php"), ("lua", "lua"), ("rscript", "r"), ("pwsh", "powershell"), ("groovy", "groovy"),
    ("bash", "bash"), ("zsh", "bash"), ("ksh", "bash"), ("dash", "bash"), ("sh", "bash"),
)  # fmt: skip
_INTERPRETER = re.compile(rb"#![ \t]*(?:\S*/)?([^/\s]+)(?:[ \t]+(?:-\S+[ \t]+)*([^\s-]\S*))?")
_CPP = re.compile(rb"^\s*(?:class|namespace|template\s*<|using\s+namespace|public:|private:)\b|::", re.MULTILINE)
_HEADER_BYTES = 64 * 1024
"""Bytes of a header file that are looked at to tell C++ from C."""

GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "kotlin": ("tree_sitter_kotlin", "language"),
    "scala": ("tree_sitter_scala", "language"),
    "swift": ("tree_sitter_swift", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "lua": ("tree_sitter_lua", "language"),
    "bash": ("tree_sitter_bash", "language"),
    "sql": ("tree_sitter_sql", "language"),
    "hcl": ("tree_sitter_hcl", "language"),
    "html": ("tree_sitter_html", "language"),
    "xml": ("tree_sitter_xml", "language_xml"),
    "css": ("tree_sitter_css", "language"),
    "yaml": ("tree_sitter_yaml", "language"),
    "toml": ("tree_sitter_toml", "language"),
    "json": ("tree_sitter_json", "language"),
}
"""Language to the module of its grammar and the function in it."""

SEPARATORS = {
    "cobol": "cobol", "elixir": "elixir", "haskell": "haskell", "powershell": "powershell", "protobuf": "proto",
    "r": "r", "solidity": "sol", "visualbasic": "visualbasic6", "vyper": "python", "dart": "java", "groovy": "java",
    "objectivec": "c", "julia": "ruby", "zig": "rust", "nim": "python",
}  # fmt: skip
"""Language without a grammar here to the name under which langchain-text-splitters knows its separators, or those of
the language whose keywords are most like its own."""


WITHOUT_GRAMMAR = "code"
"""The ending under which a file is code of no language in particular."""


def hint(name: str) -> str:
    """All of a file name that parsing depends on: two names with the same hint give the same document."""
    own = name.rpartition("/")[2].lower()
    if own in LANGUAGE_OF_NAME:
        return own
    stem, dot, ending = own.rpartition(".")
    return ending if dot and stem else ""


def language(data: bytes, name: str) -> str:
    """Language of code, by file name, or by the first line's interpreter; empty if unknown."""
    mark = hint(name)
    known = LANGUAGE_OF_NAME.get(mark, "") or LANGUAGE_OF_EXTENSION.get(mark, "")
    if mark == "h" and _CPP.search(data[:_HEADER_BYTES]):
        return "cpp"
    return known or _interpreter(data)


def _interpreter(data: bytes) -> str:
    match = _INTERPRETER.match(data[:256].partition(b"\n")[0])
    if match is None:
        return ""
    program = match.group(1).lower()
    if program == b"env":
        program = (match.group(2) or b"").rpartition(b"/")[2].lower()
    return next((spoken for mark, spoken in _INTERPRETERS if program.startswith(mark.encode())), "")
