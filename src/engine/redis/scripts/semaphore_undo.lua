-- SPDX-License-Identifier: Apache-2.0
--
-- Give back what one request took, if it did; if it has not yet, see to it that it never will.
--
-- KEYS   1 the count, 3 the record of the request in question
-- ARGV   1 the channel, 2 how long the record is kept in ms, 3 how many it wanted; 0: all, and the
--        record says how many these were
-- Result 1 (given back), 0 (it had taken nothing)
--
-- Why so: its caller has left and does not know whether it was granted. A copy that is still on its
-- way finds the record and takes nothing.
local asked = redis.call('GET', KEYS[3])
--include count
redis.call('DEL', KEYS[3])
local taken = asked and asked ~= '0'
if taken then
    count = redis.call('INCRBY', KEYS[1], ARGV[3] == '0' and asked or ARGV[3])
    if count > 0 then
        redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', count))
    end
end
redis.call('SET', KEYS[3], '0', 'PX', ARGV[2])
return taken and 1 or 0
