"""Mail: `message` says what is body and what is attachment; `mime` reads the bytes, `bodies` the text, `names` the names."""
