-- SPDX-License-Identifier: Apache-2.0
--
-- Is this key a lock, and who holds it? For people who look.
--
-- KEYS   1 the key
-- ARGV   1 the token counter, 2 the channel of a mutex, 3 the channel of a read/write lock, if the
--        key is one, 4 the queue of a fair lock
-- Result an array: what it is (free, mutex, fair, read, write, plain, semaphore, other, veiled;
--        fair: somebody waits in its queue, whether it is held or not; veiled: a number whose
--        permits the user may not see), and unless it is one of the last two: the TTL in ms (-1:
--        none, -2: free), the token counter ('0': none), how many clients wait (-1: not to be
--        known), and for each holder its owner string, its count, and how many ms are left to it
--        ('-1': no limit). Of a semaphore, instead of the TTL how many permits it has (below
--        zero: more were taken away than it had) and instead of the counter how many are out, and
--        for each permit that is out its id, '1', and how many ms are left of its lease
--
-- Why so: a lock is a hash of one field, or, with its mode, of several, whose names are owner
-- strings and whose values are numbers; or it is a string that is nothing but an owner string, and
-- has a TTL. A semaphore is a number beside which there is a list of permits that are out. What is
-- anything else is somebody's data: it may be large, so it is told by its first few bytes that it
-- is no lock, and nothing of it is sent. Only the lock itself is a key of this script: a user who
-- may not see the counter or count the subscribers still sees the lock. A fair lock that nobody
-- waits for cannot be told from a mutex; nor can one whose queue the user may not see, so that
-- nobody waits is not said then. A reader's lease is that of the keys of its holds, of which
-- Redisson makes several: the greatest counts, and of many the first few are looked at. Who may not
-- see them is told of the lock's own TTL. Without any its lease is over, and nobody has noticed.
local key = KEYS[1]
local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
local function reader(owner, count, ttl)
    local left = ttl < 0 and ttl or 0
    for i = 1, ttl < 0 and 0 or math.min(count, 16) do
        local own = redis.pcall('PTTL', base .. ':' .. owner .. ':rwlock_timeout:' .. i)
        if type(own) ~= 'number' or own == -1 then
            return ttl
        end
        left = math.max(left, own)
    end
    return left
end
local function semaphore(count)
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local over = redis.pcall('ZCOUNT', base .. ':timeout', 0, string.format('%.0f', now))
    if type(over) ~= 'number' then
        local err = over['err']
        local denied = not string.find(err, 'WRONGTYPE', 1, true) and over
        return denied and string.find(err, 'key', 1, true) and {'veiled'} or denied
    end
    local out = redis.call('ZRANGEBYSCORE', base .. ':timeout', string.format('(%.0f', now), '+inf',
        'WITHSCORES', 'LIMIT', 0, 64)
    local heard = redis.pcall('PUBSUB', 'NUMSUB', 'redisson_sc:' .. base)
    local taken = redis.call('ZCARD', base .. ':timeout') - over
    local answer = {'semaphore', count + over + taken, string.format('%.0f', taken),
        type(heard) == 'table' and heard[2] or -1}
    for i = 1, #out, 2 do
        local till = tonumber(out[i + 1])
        answer[#answer + 1] = string.gsub(out[i], '.', function (byte)
            return string.format('%02x', string.byte(byte))
        end)
        answer[#answer + 1] = '1'
        answer[#answer + 1] = till < 922337203685477 and string.format('%.0f', till - now) or '-1'
    end
    return #out > 0 and answer or nil
end
local size = redis.pcall('HLEN', key)
if type(size) ~= 'number' then
    if not string.find(size['err'], 'WRONGTYPE', 1, true) then
        return size
    end
    local owner, ttl = redis.pcall('GETRANGE', key, 0, 63), redis.call('PTTL', key)
    local uuid = type(owner) == 'string' and string.match(owner, '^(%x[%x%-]+):%d+$')
    if uuid and #uuid == 36 and ttl >= 0 then
        return {'plain', ttl, '0', -1, owner, '1', string.format('%.0f', ttl)}
    end
    local count = type(owner) == 'string' and #owner <= 11 and string.match(owner, '^%-?%d+$')
    return count and semaphore(tonumber(count)) or {'other'}
end
local what = 'mutex'
if size == 0 then
    what = 'free'
elseif size > 1 then
    what = redis.call('HGET', key, 'mode')
    if what ~= 'read' and what ~= 'write' then
        return {'other'}
    end
end
local token = redis.pcall('GET', ARGV[1])
local heard = redis.pcall('PUBSUB', 'NUMSUB', ARGV[(what == 'read' or what == 'write') and 3 or 2])
local waiters = type(heard) == 'table' and heard[2] or -1
local queued = size <= 1 and redis.pcall('LLEN', ARGV[4])
if type(queued) == 'number' and queued > 0 then
    what, waiters = 'fair', queued
elseif type(queued) == 'table' and waiters == 0 then
    waiters = string.find(queued['err'], 'WRONGTYPE', 1, true) and 0 or -1
end
local ttl = redis.call('PTTL', key)
local answer = {what, ttl, type(token) == 'string' and token or '0', waiters}
local fields = {}
if size > 64 then
    local page = redis.call('HSCAN', key, 0, 'COUNT', 64)[2]
    for i = 1, #page, 2 do
        fields[#fields + 1] = page[i]
    end
elseif size > 0 then
    fields = redis.call('HKEYS', key)
end
for i = 1, math.min(#fields, 65) do
    local uuid, rest = string.match(fields[i], '^(%x+%-%x+%-%x+%-%x+%-%x+):%-?%d+(.*)$')
    if uuid and #uuid == 36 and #fields[i] < 128 and (rest == '' or rest:sub(1, 1) == ':') then
        local count = redis.call('HGET', key, fields[i])
        if #count <= 10 and string.match(count, '^%d+$') then
            answer[#answer + 1] = fields[i]
            answer[#answer + 1] = count
            local left = size > 1 and rest == '' and reader(fields[i], tonumber(count), ttl) or ttl
            answer[#answer + 1] = string.format('%.0f', left)
        end
    end
end
return (size == 0 or #answer > 4) and answer or {'other'}
