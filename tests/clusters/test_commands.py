"""`kafkalog cluster`, `groups` and `table` as a user types them, and the sections of the report; secrets are in none of them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.cli.main import main
from kafkalog.clusters.metadata import read_image
from kafkalog.clusters.places import find_disks
from kafkalog.tables.schemas import CLUSTER_TABLES
from tests.clusters import packed

Typed = Callable[..., str]


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str]) -> Typed:
    """Run a command; its output. Its exit code is `code`, 0 unless said."""

    def run(*arguments: object, code: int = 0) -> str:
        capfd.readouterr()
        assert main([str(argument) for argument in arguments]) == code
        out, errors = capfd.readouterr()
        assert "Traceback" not in errors
        return out + errors

    return run


def test_a_cluster_at_a_glance(typed: Typed, cluster: Path) -> None:
    admin = packed.admin(cluster)
    found = json.loads(typed("cluster", cluster, "--json"))
    assert found["cluster_id"] == admin["cluster"]["clusterId"]
    assert found["voters"] == admin["cluster"]["controllers"]
    assert [node["node_id"] for node in found["nodes"]] == [node["id"] for node in admin["cluster"]["nodes"]]
    assert found["features"] == admin["features"]
    assert {topic["topic"]: topic["partitions"] for topic in found["topics"]} == {
        name: sum(each["topic"] == name for each in admin["topics"]) for name in {each["topic"] for each in admin["topics"]}
    }
    counts = len(admin["acls"]), len(admin["quotas"]), sum(map(len, admin["scram"].values())), len(admin["groups"])
    assert (found["acls"], found["quotas"], found["credentials"], found["groups"]) == counts
    assert sum(found["configs"].values()) == len(admin["configs"])
    text = typed("cluster", cluster)
    assert text.startswith(f"cluster {admin['cluster']['clusterId']}\n")
    settings = ", ".join(f"{kind} {count}" for kind, count in found["configs"].items())
    assert f"  settings  {settings}\n" in text
    assert "no broker was online" in text


def test_a_cluster_at_an_earlier_offset(typed: Typed, three: Path) -> None:
    found = json.loads(typed("cluster", three, "--at", 30, "--json"))
    assert (found["metadata"]["offset"], found["topics"], found["groups"]) == (30, [], None)
    assert [node["state"] for node in found["nodes"]] == ["online"] * 3
    assert "has the states at the offsets 0 to 547" in typed("cluster", three, "--at", 9999, code=2)


def test_groups_with_their_lag(typed: Typed, cluster: Path) -> None:
    admin = packed.admin(cluster)
    found = json.loads(typed("groups", cluster, "--json"))["groups"]
    latest = {name: each["latest"] for name, each in admin["partitionOffsets"].items()}
    lags: dict[str, int] = {}
    for each in admin["groupOffsets"]:
        behind = latest[f"{each['topic']}-{each['partition']}"] - each["offset"]
        lags[each["groupId"]] = lags.get(each["groupId"], 0) + behind
    assert {group["group_id"]: group["lag"] for group in found} == lags
    assert [group["lag"] for group in found] == sorted(lags.values(), reverse=True)
    lines = typed("groups", cluster).splitlines()
    assert lines[0].split()[:3] == ["group", "type", "state"]
    assert "pending: g-tx has txn-offsets-in-0 at 70 in an open transaction" in lines[-1]


def test_one_group_by_partition_and_its_history(typed: Typed, three: Path) -> None:
    assert re.search(r"g-tx +txn-offsets-in-0 +44 +0 +80 +36 ", typed("groups", three, "--group", "g-tx"))
    history = typed("groups", three, "--group", "g-tx", "--history").splitlines()
    assert [line.split()[3] for line in history[1:]] == ["committed", "aborted", "committed", "aborted", "committed", "pending"]
    assert "no group 'g-t' here; did you mean g-tx?" in typed("groups", three, "--group", "g-t", code=2)
    assert "no topic 'order' here; did you mean orders?" in typed("groups", three, "--topic", "order", code=2)
    of_users = json.loads(typed("groups", three, "--topic", "users", "--json"))["groups"]
    assert {each["topic"] for group in of_users for each in group["offsets"]} == {"users"}


def test_what_the_disks_do_not_say_is_a_dash(typed: Typed, three: Path) -> None:
    text = typed("groups", three / "b1" / "d1", "--group", "g-simple")
    assert re.search(r"g-simple +logs-0 +17 +- +- +- +- ", text)
    assert "no lag of 1 partition: not on these disks" in text


def test_tables_of_the_cluster_are_those_of_the_library(typed: Typed, three: Path) -> None:
    folder = three / "b1" / "d1"
    rows = [json.loads(line) for line in typed("table", "topics", folder, "--json").splitlines()]
    assert rows == kafkalog.open(folder).read("topics").read_all().to_pylist()
    assert len(typed("table", "topics", folder, "--topic", "orders", "--at", 100, "--format", "csv").splitlines()) == 7
    assert "--at has no meaning for groups" in typed("table", "groups", folder, "--at", 3, code=2)
    assert "did you mean orders?" in typed("table", "group_offsets", folder, "--topic", "order", code=2)
    assert "no cluster metadata here" in typed("table", "acls", three / "b1" / "d2", code=4)


def test_damaged_metadata_say_where_the_state_ends(typed: Typed, three: Path, tmp_path: Path) -> None:
    target = tmp_path / "__cluster_metadata-0"
    target.mkdir()
    for file in (three / "b1" / "d1" / target.name).iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    log = target / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[20_000] ^= 1
    log.write_bytes(data)
    text = typed("cluster", tmp_path, code=1)
    assert re.search(r"the state ends at offset \d+, before damage: give the disks of another node, too", text)
    assert "left out 1 damaged range" in text
    found = json.loads(typed("cluster", tmp_path, "--json", "--quiet", code=1))
    assert not found["metadata"]["complete"]
    assert "crc" in found["metadata"]["problems"][0]
    assert "crc: the stored checksum" in typed("table", "acls", tmp_path, code=1)


def test_secrets_are_in_no_output(typed: Typed, three: Path, tmp_path: Path) -> None:
    image = read_image(find_disks(three).partitions).image
    secrets = [each for found in image.credentials.values() for each in (found.salt, found.stored_key, found.server_key)]
    page = tmp_path / "report.html"
    typed("report", three / "b1" / "d1", "-o", page)
    found = kafkalog.cluster(three)
    texts = [
        typed("cluster", three),
        typed("cluster", three, "--json"),
        typed("groups", three, "--json", "--history"),
        *(typed("table", table, three / "b1" / "d1", "--json") for table in CLUSTER_TABLES),
        page.read_text(),
        repr(found) + str(found.as_dict()) + found._repr_html_() + repr(vars(found)),
    ]
    assert "SCRAM-SHA-512" in "".join(texts)
    for text in texts:
        for secret in secrets:
            assert base64.b64encode(secret).decode() not in text
            assert secret.hex() not in text
            assert repr(secret)[2:-1] not in text


def test_passwords_among_the_settings_are_null() -> None:
    from kafkalog.payloads.cluster_image import is_secret_setting

    for name in (
        "ssl.keystore.password",
        "listener.name.internal.ssl.key.password",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
        "ssl.keystore.key",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.truststore.certificates",
        "password.encoder.secret",
    ):
        assert is_secret_setting(name), name
    for name in ("retention.ms", "cleanup.policy", "ssl.keystore.location", "min.insync.replicas", "compression.type"):
        assert not is_secret_setting(name), name


def test_the_report_has_a_section_of_the_cluster_and_one_of_its_groups(three: Path) -> None:
    found = kafkalog.report([three / "b1" / "d1", three / "b1" / "d2"], now_ms=0)
    assert found.overview.cluster is not None
    assert found.overview.groups is not None
    assert len(found.overview.groups) == 8
    html = found.html
    assert 'id="cluster"' in html
    assert 'id="groups"' in html
    assert "U9KDrVt3WmSU7xYwlpOHzA" in html
    assert f"kafkalog table topics {three}/b1/d1" in html.replace("<span>", "").replace("</span>", "")
    without = kafkalog.report(three / "b1" / "d1", topics=["orders"], now_ms=0).html
    assert 'id="cluster"' not in without
    assert 'id="groups"' not in without


def test_results_show_themselves(three: Path) -> None:
    found = kafkalog.cluster([str(three)])
    assert repr(found) == "Cluster('U9KDrVt3WmSU7xYwlpOHzA', offset 547, 3 brokers, 15 topics)"
    assert "<td" in found._repr_html_()
    groups = kafkalog.groups(three, groups="g-tx", topics=["txn-offsets-in"])
    assert repr(groups).endswith("1 group)")
    assert repr(next(iter(groups))) == "GroupLag('g-tx', Empty, 1 partition, lag 36)"
    assert "g-tx" in groups._repr_html_()
