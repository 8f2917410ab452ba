-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts that give fair locks: how many stand in the queue, in the local `length`, and
-- how many have a time, in the local `times`.
--
-- Locals queue (the list of owner strings), timeouts (when each of them counts as dead)
-- Result returned only if one of the keys is none of ours: the error QUEUETYPE, so that nobody
--        takes the lock's own key for the wrong one
local length, times = redis.pcall('LLEN', queue), redis.pcall('ZCARD', timeouts)
local wrong = type(length) == 'table' and length or type(times) == 'table' and times
if wrong then
    return wrong.err:find('WRONGTYPE', 1, true) and
        redis.error_reply('QUEUETYPE not a queue of waiters') or wrong
end
