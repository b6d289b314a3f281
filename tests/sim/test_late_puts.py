"""Drawn schedules of requests that arrive late; all of them in `make proof`."""

import pytest
from proving import late_puts, late_requests
from servers.late_proxy import LateProxy
from sizes import SIZE

SHARES = 8


@pytest.mark.parametrize("share", range(SHARES))
def test_no_late_request_takes_what_was_acknowledged(share):
    for seed in range(share, SIZE.late_puts, SHARES):
        late_puts.check_schedule(seed)


@pytest.mark.parametrize("seed", [seed for seed in late_puts.SEEDS if seed >= SIZE.late_puts])
def test_schedules_that_found_a_mistake_stay_sound(seed):
    late_puts.check_schedule(seed)


def test_no_late_http_request_takes_what_was_acknowledged(s3):
    with LateProxy(s3.port) as proxy:
        late = [
            late_requests.check_schedule(seed, proxy, s3.make_bucket(f"b{seed}"), s3.storage())
            for seed in SIZE.late_requests
        ]
    assert sum(late)
