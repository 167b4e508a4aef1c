"""
Where tasks run: in this process, or on the machines of a Ray cluster.

The machine and the choice of an engine are imported from here; engines need more, and
are modules of their own.
"""

from parlai_ext.engines.machine import (
    DATA_FOLDER,
    HIDDEN,
    SHARE_FOR_WEIGHTS,
    Machine,
    data_folder,
    data_in,
    downloads_folder,
    exclusive,
    is_zoo_path,
    local_path,
    use_data_folder,
)
from parlai_ext.engines.open_engine import EngineOptions, open_engine
