-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts for sets: who has a lock, in functions owner_in(text) and holder(lock).
--
-- Result the owner string that the text, or a field of the lock's hash, is; '' if none can be told
--
-- Why so: under the lock's name may be somebody's data, of any size and nobody else's business. And
-- HSCAN looks at no more than a few even if the hash is somebody's large one, and by pcall, as
-- nobody needs the right to it for a lock.
local function owner_in(text)
    local owner, rest = text:match('^(%x+%-%x+%-%x+%-%x+%-%x+:%d+)(.*)$')
    return #text < 64 and (rest == '' or rest == ':write') and owner or ''
end
local function holder(lock)
    local fields = redis.pcall('HSCAN', lock, 0, 'COUNT', 2)[2] or {}
    return owner_in((fields[1] == 'mode' and fields[3] or fields[1]) or '')
end
