-- SPDX-License-Identifier: Apache-2.0
-- Orders for wrk, which would GET; and what they were answered, because to wrk "sold out" is an
-- error like any other:
--
--     wrk -t2 -c64 -d5s -s wrk.lua http://127.0.0.1:3786/items/10001/orders
--
-- wrk gives each of its threads a Lua state of its own; setup() gathers the threads, and done()
-- reads what each has counted.
wrk.method = "POST"

local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

-- Globals, because thread:get() finds nothing else.
sold, sold_out, busy, other = 0, 0, 0, 0

function response(status)
    if status == 201 then
        sold = sold + 1
    elseif status == 409 then
        sold_out = sold_out + 1
    elseif status == 503 then
        busy = busy + 1
    else
        other = other + 1
    end
end

function done()
    local parts = {}
    for _, name in ipairs({"sold", "sold_out", "busy", "other"}) do
        local sum = 0
        for _, thread in ipairs(threads) do
            sum = sum + thread:get(name)
        end
        table.insert(parts, string.format("%s %d", name:gsub("_", " "), sum))
    end
    print("orders: " .. table.concat(parts, ", "))
end
