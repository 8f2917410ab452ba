-- SPDX-License-Identifier: Apache-2.0
--
-- May the user who asks do all that pawl does? For people who examine a server, Redis 7.0 or later.
--
-- KEYS   none
-- ARGV   1 the name of a lock, 2 its token counter, 3 its channel, 4 the key of a client
-- Result an array of what is denied, as 'use:COMMAND:why', where `use` is lock, fair, shared,
--        plain, semaphore, permits, latch, quorum, list, break, name or server, and `why` is
--        command (the user may not run it at all) or name (not with this key or channel, but maybe
--        with others)
--
-- Why so: who has rights for some names only is as fit as who has them for all, and the name that
-- is asked for is nobody's. So a command that is denied is called, which then surely does nothing,
-- because the server says in its refusal whether the command or the name is to blame.
local denied = {}
local function need(use, command, ...)
    if redis.acl_check_cmd(command, ...) then
        return
    end
    local refused = redis.pcall(command, ...)
    local text = type(refused) == 'table' and refused['err'] or ''
    local whole = string.find(text, 'to run the', 1, true)
    whole = whole or string.find(text, "can't run", 1, true)
    denied[#denied + 1] = use .. ':' .. command .. ':' .. (whole and 'command' or 'name')
end
-- A command that scripts may not call is only asked for; its refusal says nothing.
local function ask(use, shown, ...)
    if not redis.acl_check_cmd(...) then
        denied[#denied + 1] = use .. ':' .. shown .. ':command'
    end
end
local lock, token, channel, client = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local base = '{' .. lock .. '}'
need('lock', 'PTTL', lock)
need('lock', 'HEXISTS', lock, 'x')
need('lock', 'HSET', lock, 'x', '1')
need('lock', 'HDEL', lock, 'x')
need('lock', 'PEXPIRE', lock, '1')
need('lock', 'INCR', token)
need('lock', 'GET', token)
need('lock', 'SET', token, '1')
need('lock', 'TIME')
need('lock', 'PUBLISH', channel, '0')
ask('lock', 'EVALSHA', 'EVALSHA', string.rep('0', 40), '0')
ask('lock', 'EVAL', 'EVAL', 'return 1', '0')
if not redis.acl_check_cmd('SUBSCRIBE', channel) then
    -- Scripts may not subscribe, so what PUBLISH was told about the channel has to do.
    local name = false
    for i = 1, #denied do
        name = name or denied[i] == 'lock:PUBLISH:name'
    end
    denied[#denied + 1] = 'lock:SUBSCRIBE:' .. (name and 'name' or 'command')
end
-- The other kinds, as rights.lua has them, but for what every lock needs.
local queue, timeouts = 'redisson_lock_queue:' .. base, 'redisson_lock_timeout:' .. base
need('fair', 'LLEN', queue)
need('fair', 'LINDEX', queue, '0')
need('fair', 'LRANGE', queue, '0', '-1')
need('fair', 'LPOP', queue)
need('fair', 'LREM', queue, '0', 'x')
need('fair', 'RPUSH', queue, 'x')
need('fair', 'ZCARD', timeouts)
need('fair', 'ZSCORE', timeouts, 'x')
need('fair', 'ZADD', timeouts, '1', 'x')
need('fair', 'ZREM', timeouts, 'x')
local hold = base .. ':x:rwlock_timeout:1'
need('shared', 'HGET', lock, 'x')
need('shared', 'HLEN', lock)
need('shared', 'HSCAN', lock, '0')
need('shared', 'SET', hold, '1')
need('shared', 'DEL', hold)
need('shared', 'PUBLISH', 'redisson_rwlock:' .. base, '0')
need('plain', 'DEL', lock)
local record = 'pawl_asked:' .. base .. ':x:1'
need('semaphore', 'INCRBY', lock, '1')
need('semaphore', 'DECRBY', lock, '1')
need('semaphore', 'SET', record, '1')
need('semaphore', 'DEL', record)
need('semaphore', 'PUBLISH', 'redisson_sc:' .. base, '0')
local leases = base .. ':timeout'
need('permits', 'EXISTS', record)
need('permits', 'ZSCORE', leases, 'x')
need('permits', 'ZRANGE', leases, '0', '0')
need('permits', 'ZADD', leases, '1', 'x')
need('permits', 'ZREM', leases, 'x')
need('permits', 'ZREMRANGEBYSCORE', leases, '0', '1')
need('permits', 'DEL', leases)
need('latch', 'DECR', lock)
need('latch', 'DEL', lock)
need('latch', 'PUBLISH', 'redisson_countdownlatch__channel__' .. base, '0')
need('quorum', 'EXPIRE', 'pawl_seen:x', '1')
ask('server', 'SCRIPT|LOAD', 'SCRIPT', 'LOAD', 'return 1')
ask('server', 'CLIENT|KILL', 'CLIENT', 'KILL', 'ID', '1')
ask('server', 'INFO', 'INFO')
ask('server', 'PING', 'PING')
need('list', 'SCAN', '0')
need('list', 'HSCAN', lock, '0')
need('list', 'HLEN', lock)
need('list', 'HGET', lock, 'x')
need('list', 'HKEYS', lock)
need('list', 'GETRANGE', lock, '0', '0')
need('list', 'LLEN', queue)
need('list', 'LRANGE', queue, '0', '0')
need('list', 'ZSCORE', timeouts, 'x')
need('list', 'ZCARD', leases)
need('list', 'ZCOUNT', leases, '0', '1')
need('list', 'ZRANGEBYSCORE', leases, '0', '1')
need('list', 'HMGET', client, 'host')
ask('list', 'PUBSUB|NUMSUB', 'PUBSUB', 'NUMSUB', channel)
need('break', 'TYPE', lock)
need('break', 'DEL', lock)
need('name', 'HSET', client, 'x', '1')
need('name', 'PTTL', client)
need('name', 'PEXPIRE', client, '1')
need('name', 'DEL', client)
return denied
