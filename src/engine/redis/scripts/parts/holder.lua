-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts for sets: somebody who has a lock, in a function holder(lock).
--
-- Result a field of the hash, or '' if none can be told
--
-- Why so: HSCAN looks at no more than a few even if the hash is somebody's large one, and by pcall,
-- as nobody needs the right to it for a lock.
local function holder(lock)
    local fields = redis.pcall('HSCAN', lock, 0, 'COUNT', 2)[2] or {}
    return (fields[1] == 'mode' and fields[3] or fields[1]) or ''
end
