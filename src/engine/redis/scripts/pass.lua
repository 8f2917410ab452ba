-- SPDX-License-Identifier: Apache-2.0
--
-- Release one tenure and give the lock to another one of the same client, in one step.
--
-- KEYS   1 the token counter, 2 the lock
-- ARGV   1 the channel, 2 the owner string that releases, 3 the heir's owner string, 4 the heir's
--        lease in ms, 5 how long a new token counter lives in s (0: ever), 6 what no token may be
--        below (see parts/token.lua), 7 how many of the channel's subscribers are the client
--        itself, or -1: do not ask others at all, 8 (may be missing) how many tokens in a row are
--        for this grant
-- Result > 0 passed on: the heir's token, the first of the row
--        0   the tenure does not hold it
--        -1  others wait: the tenure is released and the lock is free
--
-- Why so: without a publish nobody else can come between, which is quick, and unfair if it goes on.
-- So now and then the client offers the lock to others first. The message is that offer: if
-- somebody else hears it the lock is left to them. Asked again after it was passed on, it answers
-- the heir's token once more, and the lease counts anew, as the client counts it. The heir's field
-- is set before the old one goes, so that the key, and with it the TTL, is there at all times; if
-- the heir cannot get its lease all is as before.
local passed = redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0
if passed and redis.call('HEXISTS', KEYS[2], ARGV[3]) == 0 then
    return 0
end
if not passed and ARGV[7] ~= '-1' then
    local heard = redis.pcall('PUBLISH', ARGV[1], '0')
    if type(heard) == 'number' and heard > tonumber(ARGV[7]) then
        redis.call('HDEL', KEYS[2], ARGV[2])
        return -1
    end
end
local asked, counter_ttl, floor = passed, ARGV[5], ARGV[6]
--include token
local more = ARGV[8] and ARGV[8] - 1 or 0
--include row
if passed then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    return token
end
redis.call('HSET', KEYS[2], ARGV[3], 1)
local limited = redis.pcall('PEXPIRE', KEYS[2], ARGV[4])
if limited ~= 1 then
    redis.call('HDEL', KEYS[2], ARGV[3])
    return limited
end
redis.call('HDEL', KEYS[2], ARGV[2])
return token
