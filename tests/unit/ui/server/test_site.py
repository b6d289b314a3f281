"""Requests and their answers, without a socket."""

import json
import os
import re
import time
from http import HTTPStatus
from urllib.parse import quote

import pyarrow as pa
import pytest
from servers.s3 import S3Server

import tidelake
from tidelake.errors import ConflictError
from tidelake.ui.model.warehouse_watch import WarehouseWatch
from tidelake.ui.pages.rendering import PageWriter, Site
from tidelake.ui.server.access import PageAccess
from tidelake.ui.server.exchange import PageRequest
from tidelake.ui.server.site import WarehouseSite

TOKEN = "open-sesame-1234"
HOME = {"host": "localhost:8765"}
COMPACT = "table.compact()"
PATIENCE_S = 60
ORDERS = "/table/shop.orders"
DRY_RUN = {"finding": "too_many_runs", "call": COMPACT}


def made(watch, *, token=None, actions=False, host="127.0.0.1", metrics=None):
    access = PageAccess(host, token)
    writer = PageWriter(Site("/lake", "1.0", allows_actions=actions, has_login=access.has_token))
    return WarehouseSite(watch, writer, access, metrics=metrics, patience_s=PATIENCE_S)


def get(site, path, *, headers=HOME, **query):
    return site.answer(PageRequest("GET", path, query, headers))


def post(site, path, *, headers=HOME, **form):
    return site.answer(PageRequest("POST", path, {}, headers, form))


def csrf(site):
    text = get(site, f"{ORDERS}/action", **DRY_RUN).body.decode()
    return re.search(r'name="csrf" value="([^"]+)"', text)[1]


def test_every_answer_has_the_safe_headers(watch, orders):
    site = made(watch)
    answers = [
        get(site, "/"),
        get(site, ORDERS),
        get(site, "/static/ui.css"),
        get(site, "/nothing"),
        get(site, "/", headers={}),
    ]
    for one in answers:
        found = one.all_headers
        assert "unsafe" not in found["Content-Security-Policy"]
        assert found["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
        assert found["X-Content-Type-Options"] == "nosniff"
        assert "PageAccess-Control-Allow-Origin" not in found
    assert [one.status for one in answers] == [200, 200, 200, 404, 403]


def test_a_page_that_did_not_change_is_not_sent_again(watch, orders):
    site = made(watch)
    watch.examine(watch.facts("shop.orders"))
    first = get(site, ORDERS)
    known = {**HOME, "if-none-match": first.headers["ETag"]}
    again = get(site, ORDERS, headers=known)
    assert (again.status, again.body) == (HTTPStatus.NOT_MODIFIED, b"")
    assert "Content-Length" not in again.all_headers
    orders.write([{"day": "d", "id": 1, "item": "tea"}])
    watch.forget("shop.orders")
    assert get(site, ORDERS, headers=known).status == HTTPStatus.OK


def test_findings_come_with_the_next_look(watch, orders):
    site = made(watch)
    assert b"The doctor is looking" in get(site, ORDERS).body
    for running in watch.look(["shop.orders"]):
        running.result(PATIENCE_S)
    assert b"too many runs" in get(site, ORDERS).body


@pytest.mark.parametrize("name", ["db.no", "no.t", "noname", "a.b.c", "shop.orders$files", "%00"])
def test_a_table_that_is_not_there_is_a_page_that_says_so(watch, orders, name):
    answer = get(made(watch), f"/table/{quote(name)}")
    assert answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
    assert b"Go back" in answer.body


@pytest.mark.parametrize("path", ["/table/", "/table/a/b/c", "/../etc/passwd", "/static/../x", ""])
def test_other_paths_are_not_there(watch, path):
    assert get(made(watch), path).status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("text", ["0", "-1", "x", "9" * 40, "²"])
def test_a_page_number_that_is_none_is_the_first_or_the_last(watch, orders, text):
    assert get(made(watch), ORDERS, snapshots=text).status == HTTPStatus.OK


def test_strange_names_have_addresses(watch, lake):
    lake.create_table("db.a b&c", pa.schema({"n": pa.int64()}))
    text = get(made(watch), "/").body.decode()
    [address] = re.findall(r'href="(/table/[^"]+)"', text)
    assert address == "/table/db.a%20b%26c"
    assert get(made(watch), address).status == HTTPStatus.OK


def test_another_host_name_is_refused(watch, orders):
    for path in ("/", ORDERS, "/static/ui.js", "/metrics"):
        assert get(made(watch), path, headers={"host": "evil.example"}).status == 403


def test_with_a_token_nothing_is_shown_without_it(watch, orders):
    site = made(watch, token=TOKEN, host="0.0.0.0", metrics=lambda: (b"x 1\n", "text/plain"))
    anywhere = {"host": "box.example"}
    for path in ("/", ORDERS, "/metrics", f"{ORDERS}/action", "/nothing"):
        answer = get(site, path, headers=anywhere)
        assert answer.status == HTTPStatus.UNAUTHORIZED
        assert b"shop" not in answer.body
        assert b'name="token"' in answer.body
    wrong = {**anywhere, "authorization": "Bearer nope"}
    assert get(site, "/metrics", headers=wrong).status == HTTPStatus.UNAUTHORIZED
    right = {**anywhere, "authorization": f"Bearer {TOKEN}"}
    assert get(site, "/metrics", headers=right).body == b"x 1\n"
    assert b"shop.orders" in get(site, "/", headers=right).body


def test_a_browser_logs_in_once_and_out(watch, orders):
    site = made(watch, token=TOKEN, host="0.0.0.0")
    assert post(site, "/login", token="wrong-wrong-wrong").status == HTTPStatus.UNAUTHORIZED
    answer = post(site, "/login", token=TOKEN)
    assert (answer.status, answer.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/")
    cookie = {**HOME, "cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    assert b"shop.orders" in get(site, "/", headers=cookie).body
    assert b"Log out" in get(site, "/", headers=cookie).body
    assert post(site, "/logout", headers=cookie).status == HTTPStatus.SEE_OTHER
    assert get(site, "/", headers=cookie).status == HTTPStatus.UNAUTHORIZED
    assert get(made(watch), "/login").headers["Location"] == "/"


def test_nothing_changes_without_being_allowed(watch, orders):
    site = made(watch)
    assert get(site, f"{ORDERS}/action", **DRY_RUN).status == HTTPStatus.FORBIDDEN
    other = made(watch, actions=True)
    assert post(site, f"{ORDERS}/action", csrf=csrf(other), **DRY_RUN).status == 403
    assert orders.latest_snapshot_id == 6


def test_a_dry_run_is_shown_and_then_the_call_is_made(watch, orders):
    site = made(watch, actions=True)
    shown = get(site, f"{ORDERS}/action", **DRY_RUN)
    assert b"runs count max" in shown.body
    assert orders.latest_snapshot_id == 6
    done = post(site, f"{ORDERS}/action", csrf=csrf(site), **DRY_RUN)
    assert (done.status, b"Done" in done.body) == (HTTPStatus.OK, True)
    assert orders.latest_snapshot_id == 7
    assert watch.examine(watch.facts("shop.orders")).diagnosis.of("too_many_runs") is None
    again = post(site, f"{ORDERS}/action", csrf=site._access.csrf, **DRY_RUN)
    assert again.status == HTTPStatus.CONFLICT
    assert orders.latest_snapshot_id == 7


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"csrf": "guess"}, HTTPStatus.FORBIDDEN),
        ({"call": "table.tags.delete('before')"}, HTTPStatus.CONFLICT),
        ({"call": "table.compact(full=True)"}, HTTPStatus.CONFLICT),
        ({"finding": "small_files"}, HTTPStatus.CONFLICT),
        ({"call": ""}, HTTPStatus.CONFLICT),
    ],
)
def test_what_the_doctor_does_not_prescribe_is_not_done(watch, orders, form, status):
    site = made(watch, actions=True)
    given = {"csrf": csrf(site), **DRY_RUN, **form}
    assert post(site, f"{ORDERS}/action", **given).status == status
    assert orders.latest_snapshot_id == 6
    assert [tag.name for tag in orders.tags] == ["before"]


def test_a_form_from_elsewhere_is_not_taken(watch, orders):
    site = made(watch, actions=True)
    crossed = {**HOME, "sec-fetch-site": "cross-site"}
    answer = post(site, f"{ORDERS}/action", headers=crossed, csrf=csrf(site), **DRY_RUN)
    assert answer.status == HTTPStatus.FORBIDDEN
    assert orders.latest_snapshot_id == 6


def test_a_call_that_fails_says_why(watch, orders, monkeypatch):
    site = made(watch, actions=True)
    given = {"csrf": csrf(site), **DRY_RUN}

    def gives_way(table, call):
        message = f"{call} of {table.identifier} lost."
        raise ConflictError(message, kind="compaction_conflict")

    monkeypatch.setattr("tidelake.ui.server.site.carry_out", gives_way)
    answer = post(site, f"{ORDERS}/action", **given)
    assert answer.status == HTTPStatus.CONFLICT
    assert b"table.compact() of shop.orders lost." in answer.body


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_refused(watch, method):
    answer = made(watch).answer(PageRequest(method, "/", {}, HOME))
    assert answer.status == HTTPStatus.METHOD_NOT_ALLOWED


def test_nothing_is_posted_elsewhere(watch, orders):
    site = made(watch, actions=True)
    assert post(site, "/").status == HTTPStatus.NOT_FOUND
    assert post(site, ORDERS, csrf=site._access.csrf).status == HTTPStatus.NOT_FOUND


def test_a_consumer_that_came_back_since_the_dry_run_is_not_reset(watch, lake, tmp_path):
    table = lake.create_table(
        "shop.orders",
        pa.schema({"n": pa.int64()}),
        options={
            "snapshot.num-retained.min": 1,
            "snapshot.num-retained.max": 1,
            "write-only": True,
        },
    )
    for n in range(4):
        table.write([{"n": n}])
    for _ in table.stream(start=1, consumer_id="mailer", timeout=0):
        break
    consumers = tmp_path / "lake" / "shop.db" / "orders" / "consumer"
    for lease in consumers.glob("lease-*"):
        lease.unlink()
    file = consumers / "consumer-mailer"
    week_ago = time.time() - 30 * 86_400
    os.utime(file, (week_ago, week_ago))
    site = made(watch, actions=True)
    given = {
        "finding": "silent_consumers",
        "call": "table.maintenance.reset_consumer('mailer')",
    }
    shown = get(site, f"{ORDERS}/action", **given)
    assert shown.status == HTTPStatus.OK
    token = re.search(r'name="csrf" value="([^"]+)"', shown.body.decode())[1]
    os.utime(file)  # it is back
    answer = post(site, f"{ORDERS}/action", csrf=token, **given)
    assert answer.status == HTTPStatus.CONFLICT
    assert file.exists()


def test_a_time_that_is_none_does_not_take_the_pages_down(watch, orders, tmp_path):
    place = tmp_path / "lake" / "shop.db" / "orders"
    for name in ("snapshot/snapshot-6", "schema/schema-0"):
        document = json.loads((place / name).read_text())
        document["timeMillis"] = 300_000_000_000_000
        for key in [key for key in document if "checksum" in key.lower()]:
            del document[key]
        (place / name).write_text(json.dumps(document))
    for path in ("/", ORDERS):
        answer = get(made(watch), path)
        assert answer.status == HTTPStatus.OK
        assert b"no time (300000000000000 ms)" in answer.body


@pytest.mark.parametrize("metastore", ["filesystem", "jdbc"])
def test_a_warehouse_on_an_object_store_is_shown_without_its_secrets(metastore, tmp_path):
    with S3Server() as store:
        secrets = store.storage()
        options = {"metastore": metastore}
        if metastore == "jdbc":
            options["uri"] = f"jdbc:sqlite:{tmp_path}/catalog.db"
        catalog = tidelake.open("s3://lake/w", storage=secrets, catalog=options)
        table = catalog.create_table("db.t", {"n": "INT"}, options={"target-file-size": "1 mb"})
        for n in range(3):
            table.write([{"n": n}])
        with WarehouseWatch(catalog) as watch:
            site = made(watch, actions=True)
            pages = [get(site, "/"), get(site, "/table/db.t")]
        texts = [page.body.decode() for page in pages]
    assert [page.status for page in pages] == [HTTPStatus.OK, HTTPStatus.OK]
    assert "/table/db.t" in texts[0]
    assert "s3://lake/w/db.db/t" in texts[1]
    assert "fighting_options" in texts[1] or "set_options" in texts[1]
    for text in texts:
        assert secrets["s3.secret-key"] not in text
        assert secrets["s3.access-key"] not in text
