-- SPDX-License-Identifier: Apache-2.0
--
-- Let the leases of many read/write holds last at least so long from now, each only if its tenure
-- still holds it; or let a writer go on as a reader.
--
-- KEYS   the locks
-- ARGV   for each lock its name in braces, the owner string, the lease in ms, and `r` (reads, or is
--        to read from now on) or `w` (writes)
-- Result for each lock 1 (renewed), 0 (the tenure does not hold it), or an error
--
-- Why so: either field proves the hold, whatever it is asked as, so a late copy of a renewal never
-- takes a reader for lost or makes it a writer again. Nothing is ever shortened: other readers may
-- count on a longer TTL. A reader whose own key has expired while its field is there was collected
-- by nobody, so it gets the key again. Who goes on as a reader lets waiting readers in, and tells
-- them, which Redisson does not do. The calls that may fail are by pcall and come first, as one bad
-- key must not keep the others from being renewed.
local function last(key, lease)
    local left = redis.pcall('PTTL', key)
    if type(left) == 'number' and left >= lease then
        return 1
    end
    return type(left) == 'number' and redis.pcall('PEXPIRE', key, lease) or left
end
local function renew(lock, prefix, owner, lease, reads)
    local reader = redis.pcall('HEXISTS', lock, owner)
    local writer = redis.pcall('HEXISTS', lock, owner .. ':write')
    if type(writer) ~= 'number' or writer + reader == 0 then
        return writer
    end
    if reads or reader == 1 then
        local hold = prefix .. ':' .. owner .. ':rwlock_timeout:1'
        local lasts = last(hold, lease)
        if lasts == 0 then
            lasts = redis.pcall('SET', hold, 1, 'PX', lease)
        end
        if type(lasts) == 'table' and lasts['err'] then
            return lasts
        end
    end
    if reads and writer == 1 then
        redis.call('HSET', lock, 'mode', 'read', owner, 1)
        redis.call('HDEL', lock, owner .. ':write')
        redis.pcall('PUBLISH', 'redisson_rwlock:' .. prefix, '1')
    end
    return last(lock, lease)
end
local answers = {}
for i = 1, #KEYS do
    local at = 4 * i
    answers[i] = renew(
        KEYS[i], ARGV[at - 3], ARGV[at - 2], tonumber(ARGV[at - 1]), ARGV[at] == 'r')
end
return answers
