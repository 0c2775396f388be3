"""Settings of whoever runs the tests are none of the tests'."""

from __future__ import annotations

import os

for _name in [name for name in os.environ if name.startswith("LAMINA_")]:
    del os.environ[_name]
