-- SPDX-License-Identifier: Apache-2.0
--
-- Let permits that are out last at least so long from now.
--
-- KEYS   1 the count, 2 the leases
-- ARGV   1 the channel, 2 the lease in ms, 3... the ids
-- Result for each id 1 (it is out), 0 (its lease was over before, or it never was)
--
-- Why so: nothing ever shortens a lease. What is over is over, even if nobody came by yet.
--include count
--include reclaim
local till = now + tonumber(ARGV[2])
local answers = {}
for i = 3, #ARGV do
    local score = redis.call('ZSCORE', KEYS[2], ARGV[i])
    if score and tonumber(score) < till then
        redis.call('ZADD', KEYS[2], string.format('%.0f', till), ARGV[i])
    end
    answers[#answers + 1] = score and 1 or 0
end
return answers
