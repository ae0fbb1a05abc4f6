package ca

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"time"
)

// Rotation is how a root of the control plane's own making is renewed before it ends.
type Rotation struct {
	// Interval is how often its age is looked at; 0 or less: never. CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL, an hour.
	Interval time.Duration
	// GracePercent is the part of its life, in percent, that is left when it is renewed. CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE, 20.
	GracePercent int
	// Jitter has replicas begin to look at different times. CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR.
	Jitter bool
}

// due says whether it is time to renew a root.
func (r Rotation) due(m *Material, now time.Time) bool {
	life := m.Certificate.NotAfter.Sub(m.Certificate.NotBefore)
	grace := life / 100 * time.Duration(r.GracePercent)
	return now.After(m.Certificate.NotAfter.Add(-grace))
}

// Keeper has an Authority sign with what its Home holds, whatever becomes of that.
type Keeper struct {
	Home      Home
	Authority *Authority
	// SelfSigned makes the root if Home has nothing, and renews it by Rotation; nil: operators do both.
	SelfSigned *SelfSigned
	Rotation   Rotation
	// Now, Random and Log are parameters for tests; nil: the system's, and no log.
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger
	// Observe, if it is not nil, is told of what Home has that cannot be used, once.
	Observe func(err error)

	version string
	fault   string // what was wrong with what was found last, "" if nothing
}

// Open loads what there is, or makes the first root. Of several replicas that do so at once one succeeds, and the others load
// what it made.
func (k *Keeper) Open(ctx context.Context) error {
	if k.Now == nil {
		k.Now = time.Now
	}
	if k.Random == nil {
		k.Random = rand.Reader
	}
	if k.Log == nil {
		k.Log = slog.New(slog.DiscardHandler)
	}
	const tries = 5
	for range tries {
		f, version, err := k.Home.Load(ctx)
		if errors.Is(err, errNoAuthority) && k.SelfSigned != nil {
			if f, err = k.SelfSigned.Make(k.Random, k.Now()); err != nil {
				return err
			}
			if err = k.Home.Store(ctx, f, version); errors.Is(err, errConflict) {
				continue
			}
			if err == nil {
				k.Log.Info("a new root was made", "at", k.Home.String())
				continue // load it, for its version
			}
		}
		if err != nil {
			return fmt.Errorf("open the authority at %s: %w", k.Home, err)
		}
		return k.begin(ctx, f, version)
	}
	return fmt.Errorf("open the authority at %s: %w", k.Home, errConflict)
}

// begin signs with the first files. A root of our own making that has ended meanwhile is renewed.
func (k *Keeper) begin(ctx context.Context, f Files, version string) error {
	k.version = version
	_, err := k.Authority.Use(f)
	if err == nil {
		return nil
	}
	if old, ended := k.ended(f); ended {
		k.Log.Warn("the root has ended, and is renewed", "at", k.Home.String(), "ended", old.NotAfter)
		return k.renew(ctx, old)
	}
	return fmt.Errorf("open the authority at %s: %w", k.Home, err)
}

// ended says whether nothing is wrong with a root of our own making but its age.
func (k *Keeper) ended(f Files) (*Material, bool) {
	list, err := ParseCertificates(f.Certificate)
	if err != nil || k.SelfSigned == nil || !k.Now().After(list[0].NotAfter) {
		return nil, false
	}
	m, err := f.Load(list[0].NotBefore.Add(backdate))
	return m, err == nil && m.selfSigned()
}

// selfSigned says that it is a root that signs by itself, as the control plane makes them.
func (m *Material) selfSigned() bool {
	return len(m.Roots) == 1 && m.Roots[0].Equal(m.Certificate)
}

// Run follows Home until the context ends. Open must have succeeded.
func (k *Keeper) Run(ctx context.Context) error {
	changes := make(chan struct{}, 1)
	watching := make(chan error, 1)
	go func() {
		watching <- k.Home.Watch(ctx, func() {
			select {
			case changes <- struct{}{}:
			default: // one is waiting to be looked at
			}
		})
	}()
	check := time.NewTimer(k.firstCheck())
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return <-watching
		case err := <-watching:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch the authority at %s: %w", k.Home, err)
		case <-changes:
			k.reload(ctx)
		case <-check.C:
			k.check(ctx)
			check.Reset(k.Rotation.Interval)
		}
	}
}

// never is longer than any control plane runs.
const never = 100 * 365 * 24 * time.Hour

func (k *Keeper) firstCheck() time.Duration {
	switch {
	case k.SelfSigned == nil || k.Rotation.Interval <= 0:
		return never
	case k.Rotation.Jitter:
		return time.Duration(mathrand.Int64N(int64(k.Rotation.Interval))) //nolint:gosec // to spread load, not to keep a secret
	}
	return k.Rotation.Interval
}

// reload signs with what Home has now. If there is something wrong with that, nothing changes.
func (k *Keeper) reload(ctx context.Context) {
	f, version, err := k.Home.Load(ctx)
	if err == nil && version == k.version {
		return
	}
	if err == nil {
		_, err = k.Authority.Use(f)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if text := err.Error(); text != k.fault { // directories are looked at every other second
			k.fault = text
			if k.Observe != nil {
				k.Observe(err)
			}
			k.Log.Error("the authority's new files are not used; certificates are signed with the last good ones", "at", k.Home.String(), "err", err)
		}
		return
	}
	k.version, k.fault = version, ""
}

// check renews the root if it is time.
func (k *Keeper) check(ctx context.Context) {
	m, _ := k.Authority.Material()
	if m == nil || !m.selfSigned() || !k.Rotation.due(m, k.Now()) {
		return
	}
	if err := k.renew(ctx, m); err != nil {
		k.Log.Error("the root could not be renewed", "at", k.Home.String(), "ends", m.Certificate.NotAfter, "err", err)
	}
}

// renew replaces the root. If another replica has done so first, its is used.
func (k *Keeper) renew(ctx context.Context, old *Material) error {
	f, err := k.SelfSigned.Renew(k.Random, k.Now(), old)
	if err != nil {
		return err
	}
	switch err := k.Home.Store(ctx, f, k.version); {
	case errors.Is(err, errReadOnly):
		return fmt.Errorf("renew the root: %w; it ends at %v", err, old.NotAfter)
	case err != nil && !errors.Is(err, errConflict):
		return fmt.Errorf("renew the root: %w", err)
	}
	if f, k.version, err = k.Home.Load(ctx); err != nil {
		return fmt.Errorf("renew the root: %w", err)
	}
	if _, err := k.Authority.Use(f); err != nil {
		return fmt.Errorf("renew the root: %w", err)
	}
	k.Log.Info("the root was renewed, with the same key", "at", k.Home.String())
	return nil
}
