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

	"github.com/meshpilot/meshpilot/internal/base/notify"
)

// Rotation configures the renewal of a self-signed root before it expires.
type Rotation struct {
	// Interval is the time between checks of the root's age
	// (CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL, default one hour). If 0 or negative, the root
	// is not renewed.
	Interval time.Duration
	// GracePercent is the remaining lifetime, in percent, at which the root is renewed
	// (CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE, default 20).
	GracePercent int
	// Jitter delays the first check by a random part of Interval, so that replicas check at
	// different times (CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR).
	Jitter bool
}

// isDue reports whether less than GracePercent of the lifetime of the material's certificate
// remains at now.
func (r Rotation) isDue(m *Material, now time.Time) bool {
	life := m.Certificate.NotAfter.Sub(m.Certificate.NotBefore)
	grace := life / 100 * time.Duration(r.GracePercent)
	return now.After(m.Certificate.NotAfter.Add(-grace))
}

// Reloader keeps an Authority's material equal to the files in a KeyStore, and creates and rotates
// a self-signed root there.
type Reloader struct {
	Store     KeyStore
	Authority *Authority
	// SelfSigned creates the root if Store is empty, and renews it by Rotation. If nil, operators
	// provide and replace the files, and new roots must contain the current ones or be contained in
	// them.
	SelfSigned *SelfSigned
	Rotation   Rotation
	// Now, Random and Log default to the system's clock, crypto/rand and no log.
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger
	// OnLoadError, if not nil, is called once for each new error of the files in Store.
	OnLoadError func(err error)

	version   string
	lastError string // the last load error, "" after a successful load
}

// LoadOrCreate sets the defaults of k and loads the files of Store into the Authority (useInitial).
// If Store is empty, it stores a new root and loads it; without SelfSigned it returns an error. If
// several replicas create one concurrently, one succeeds and the others load its root. It fails
// after five attempts.
func (k *Reloader) LoadOrCreate(ctx context.Context) error {
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
		f, version, err := k.Store.Load(ctx)
		if errors.Is(err, errNoAuthority) && k.SelfSigned != nil {
			if f, err = k.SelfSigned.NewRoot(k.Random, k.Now()); err != nil {
				return err
			}
			if err = k.Store.Store(ctx, f, version); errors.Is(err, errConflict) {
				continue
			}
			if err == nil {
				k.Log.Info("created a self-signed root", "store", k.Store.String())
				continue // load it to get its version
			}
		}
		if err != nil {
			return fmt.Errorf("load the authority from %s: %w", k.Store, err)
		}
		return k.useInitial(ctx, f, version)
	}
	return fmt.Errorf("load the authority from %s: %w", k.Store, errConflict)
}

// useInitial replaces the Authority's material by the first files, which have this version. If the
// only fault is that a self-signed root has expired (expiredRoot), it renews the root in Store. It
// returns an error for all other invalid files.
func (k *Reloader) useInitial(ctx context.Context, f Files, version string) error {
	k.version = version
	_, err := k.Authority.ReplaceMaterial(f)
	if err == nil {
		return nil
	}
	if old, ended := k.expiredRoot(f); ended {
		k.Log.Warn("self-signed root has expired, renewing it", "store", k.Store.String(), "expired", old.NotAfter)
		return k.renewRoot(ctx, old)
	}
	return fmt.Errorf("load the authority from %s: %w", k.Store, err)
}

// expiredRoot returns the material of the files, and true if it is a self-signed root whose only
// defect is its expiry. Otherwise, and if k.SelfSigned is nil, it returns false, and the material
// must not be used. The files are parsed as of the beginning of the root's validity.
func (k *Reloader) expiredRoot(f Files) (*Material, bool) {
	list, err := ParseCertificates(f.Certificate)
	if err != nil || k.SelfSigned == nil || !k.Now().After(list[0].NotAfter) {
		return nil, false
	}
	m, err := f.Parse(list[0].NotBefore.Add(backdate))
	return m, err == nil && m.isSelfSigned()
}

// isSelfSigned reports whether the signing certificate is itself the only root, as SelfSigned
// creates it. It is also true for such a root of an operator.
func (m *Material) isSelfSigned() bool {
	return len(m.Roots) == 1 && m.Roots[0].Equal(m.Certificate)
}

// Run reloads the files on each change of Store until ctx ends, and then waits for the end of the
// watch and returns nil. With SelfSigned and Rotation.Interval it also rotates the root. It returns
// an error if the watch ends earlier. LoadOrCreate must have succeeded; a failed reload or rotation
// is logged, and the current material stays.
func (k *Reloader) Run(ctx context.Context) error {
	changes := notify.NewWake()
	watching := make(chan error, 1)
	go func() {
		watching <- k.Store.Watch(ctx, func() {
			changes.Notify()
		})
	}()
	check := time.NewTimer(k.firstCheckDelay())
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			<-watching //nolint:errcheck // its error is the one of ctx
			return nil
		case err := <-watching:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch the authority in %s: %w", k.Store, err)
		case <-changes.C():
			k.reload(ctx)
		case <-check.C:
			k.rotateIfDue(ctx)
			check.Reset(k.Rotation.Interval)
		}
	}
}

// never is longer than any process runs.
const never = 100 * 365 * 24 * time.Hour

// firstCheckDelay returns the time until the first rotation check: Interval, or a random part of it
// with Jitter. Without SelfSigned or Interval it is so long that there is no check.
func (k *Reloader) firstCheckDelay() time.Duration {
	switch {
	case k.SelfSigned == nil || k.Rotation.Interval <= 0:
		return never
	case k.Rotation.Jitter:
		return time.Duration(
			mathrand.Int64N(int64(k.Rotation.Interval)),
		) //nolint:gosec // to spread load, not to keep a secret
	}
	return k.Rotation.Interval
}

// reload loads Store and replaces the Authority's material, if the version changed. If the files
// cannot be read or applyFiles refuses them, it keeps the current material, logs the error and
// calls OnLoadError. An error equal to the last reported one is not reported again until the files
// were valid in between. If ctx ends while the files are read, nothing is reported.
func (k *Reloader) reload(ctx context.Context) {
	f, version, err := k.Store.Load(ctx)
	if err == nil && version == k.version {
		k.lastError = ""
		return
	}
	if err == nil {
		err = k.applyFiles(f)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if text := err.Error(); text != k.lastError { // directories are polled every 2 s
			k.lastError = text
			if k.OnLoadError != nil {
				k.OnLoadError(err)
			}
			k.Log.Error(
				"new files of the certificate authority cannot be used; signing continues with the last valid ones",
				"store", k.Store.String(),
				"err", err,
			)
		}
		return
	}
	k.version, k.lastError = version, ""
}

// applyFiles replaces the Authority's material by files that changed while it runs. It returns an
// error, and keeps the material, if they are invalid. It also refuses an operator's files whose
// roots neither contain the current ones nor are contained in them. Workloads with the old roots
// and workloads with the new ones would not trust each other.
func (k *Reloader) applyFiles(f Files) error {
	m, err := f.Parse(k.Authority.now())
	if err != nil {
		return err
	}
	current, _ := k.Authority.Material()
	if k.SelfSigned == nil && current != nil && !isSubset(m.Roots, current.Roots) && !isSubset(current.Roots, m.Roots) {
		return errors.New("the roots are exchanged, and neither set of roots contains the other: " +
			"add the new root beside the current one first, and remove that once the new one signs; " +
			"a restart uses the new roots at once, and breaks connections between workloads until all have them")
	}
	k.Authority.setMaterial(m)
	return nil
}

// rotateIfDue renews the root if it is self-signed and due. A failure is logged and retried at the
// next check.
func (k *Reloader) rotateIfDue(ctx context.Context) {
	m, _ := k.Authority.Material()
	if m == nil || !m.isSelfSigned() || !k.Rotation.isDue(m, k.Now()) {
		return
	}
	if err := k.renewRoot(ctx, m); err != nil {
		k.Log.Error(
			"renewing the self-signed root failed, retrying at the next check",
			"store", k.Store.String(),
			"expires", m.Certificate.NotAfter,
			"err", err,
		)
	}
}

// renewRoot stores a root with the key of old and loads it. If another replica has stored one
// first, it loads that one. It returns an error if Store is read-only or fails, or if the stored
// files are invalid. The Authority gets the root that is stored in the end.
func (k *Reloader) renewRoot(ctx context.Context, old *Material) error {
	f, err := k.SelfSigned.RenewRoot(k.Random, k.Now(), old)
	if err != nil {
		return err
	}
	switch err := k.Store.Store(ctx, f, k.version); {
	case errors.Is(err, errReadOnly):
		return fmt.Errorf("renew the root: %w; it expires at %v", err, old.NotAfter)
	case err != nil && !errors.Is(err, errConflict):
		return fmt.Errorf("renew the root: %w", err)
	}
	if f, k.version, err = k.Store.Load(ctx); err != nil {
		return fmt.Errorf("renew the root: %w", err)
	}
	if _, err := k.Authority.ReplaceMaterial(f); err != nil {
		return fmt.Errorf("renew the root: %w", err)
	}
	k.Log.Info("renewed the self-signed root with the same key", "store", k.Store.String())
	return nil
}
