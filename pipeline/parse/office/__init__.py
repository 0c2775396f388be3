"""Office Open XML: DOCX, PPTX and XLSX, each its own reader over `ooxml.Package`, and `containers`, which tells them apart."""
