#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shop's HTTP interface, as a customer sees it: service.py --flashsale FILE"""

import sys

import stage as stages
from stage import expect, expect_true

CASES, case = stages.cases()


@case
def an_order_has_a_number_and_what_is_left(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "pawl")
    expect(shop.put("10001", stock=50), {"item": "10001", "stock": 50, "initial": 50, "sold": 0},
           "PUT")
    answer = shop.order("10001")
    expect(answer.status, 201, "status")
    expect(answer.json, {"order": "10001-1", "item": "10001", "quantity": 1, "remaining": 49,
                         "port": shop.port, "strategy": "pawl"}, "the order")
    expect(shop.item("10001")["sold"], 1, "sold")
    expect(redis.cli("get", "10001"), "49", "the stock in Redis")
    record, = stages.records(redis, "10001")
    expect_true(record.pop("at_ms") > 0 and record.pop("token") > 0, "date and token")
    expect(record, {"item": "10001", "segment": "10001", "quantity": 1, "remaining": 49,
                    "port": shop.port, "strategy": "pawl", "user": "", "activity": ""}, "record")


@case
def sold_out_is_409(stage):
    shop = stage.serve(stage.redis())
    shop.put("10001", stock=2)
    for strategy in ("none", "process-mutex", "pawl", "atomic"):
        shop.put("10001", stock=2)
        expect(shop.order("10001", strategy=strategy, quantity=2).status, 201, strategy)
        answer = shop.order("10001", strategy=strategy)
        expect(answer.status, 409, f"{strategy}, with nothing left")
        expect((answer.json["error"], answer.json["remaining"]), ("sold out", 0), strategy)


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
