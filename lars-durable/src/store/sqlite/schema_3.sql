-- Version 3: runs hear of cancels, and parked timers may be pruned.

-- While it ran: the run may hear of it.
ALTER TABLE lars_timer ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;

-- Those that were parked first are the first to go.
CREATE INDEX lars_parked_since ON lars_parked (grp, parked_at, id);

DROP TRIGGER lars_schedule_delete;

CREATE TRIGGER lars_schedule_delete INSTEAD OF DELETE ON lars_schedule
BEGIN
    DELETE FROM lars_timer WHERE id = OLD.id AND fence IS NULL;
    UPDATE lars_timer SET repeat = NULL, cancelled = 1 WHERE id = OLD.id;
END;
