-- SPDX-License-Identifier: Apache-2.0
--
-- Who stands in the queue of a fair lock? For people who look.
--
-- KEYS   1 the queue, 2 when who counts as dead
-- Result an array: for each waiter, the next one first, its owner string and for how many ms it
--        still counts as alive (0: it does not), a thousand of them at most
--
-- Why so: a queue is as long as people make it, and who looks must not stop the server for it.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = {}
for _, owner in ipairs(redis.call('LRANGE', KEYS[1], 0, 999)) do
    local dead_at = redis.call('ZSCORE', KEYS[2], owner)
    answer[#answer + 1] = owner
    answer[#answer + 1] = math.max((dead_at or now) - now, 0)
end
return answer
