"""Requests that MinIO answered long ago arrive once more, beside all that frees a name."""

from __future__ import annotations

import pytest
from proving import late_requests
from servers.late_proxy import LateProxy
from sizes import SIZE
from stores.chosen import BY_MAKE_STORES

pytestmark = BY_MAKE_STORES


@pytest.mark.timeout(5 * 3600)
def test_no_late_request_takes_what_was_acknowledged(minio):
    late = 0
    with LateProxy(minio.port) as proxy:
        for seed in SIZE.late_requests:
            bucket = f"late-{seed}"
            (minio.program.place / "data" / bucket).mkdir()  # a bucket of MinIO is a directory
            late += late_requests.check_schedule(seed, proxy, bucket, minio.options)
    print("minio", {"schedules": len(SIZE.late_requests), "late": late})
    assert late
