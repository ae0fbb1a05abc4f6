package ca

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const poll = 5 * time.Millisecond

// stores are empty writable KeyStores of all kinds.
func stores(t *testing.T) map[string]func(*testing.T) KeyStore {
	return map[string]func(*testing.T) KeyStore{
		"directory": func(t *testing.T) KeyStore {
			return FileStore{Path: filepath.Join(t.TempDir(), "ca"), PollInterval: poll}
		},
		"Secret": func(t *testing.T) KeyStore {
			longtest.Test(t) // the API server takes seconds to start
			c := shared.Start(t)
			return SecretStore{Client: c.Client(t), Namespace: c.Namespace(t, "ca", nil), Name: SelfSignedSecret}
		},
	}
}

func keeper(h KeyStore, r Rotation) *Reloader {
	return &Reloader{
		Store: h, Authority: NewAuthority(AuthorityOptions{}), Rotation: r,
		SelfSigned: &SelfSigned{TrustDomain: "cluster.local", Lifetime: time.Hour},
	}
}

// runs runs a Reloader until the test ends.
func runs(t *testing.T, k *Reloader) {
	t.Helper()
	if err := k.LoadOrCreate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// endedStore is a directory whose watch returns the error of the context when that ends.
type endedStore struct{ FileStore }

func (endedStore) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestReloaderEndsWithItsContext: the end of the context is no error, also by its deadline. Which
// of the Reloader and its watch notices it first is random, so it is tried repeatedly.
func TestReloaderEndsWithItsContext(t *testing.T) {
	k := keeper(endedStore{FileStore{Path: filepath.Join(t.TempDir(), "ca")}}, Rotation{})
	if err := k.LoadOrCreate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// TestReplicasMakeOneRoot starts twenty at once.
func TestReplicasMakeOneRoot(t *testing.T) {
	for name, place := range stores(t) {
		t.Run(name, func(t *testing.T) {
			home := place(t)
			var all sync.WaitGroup
			keepers := make([]*Reloader, 20)
			for i := range keepers {
				keepers[i] = keeper(home, Rotation{})
				all.Go(func() {
					if err := keepers[i].LoadOrCreate(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			first, _ := keepers[0].Authority.Material()
			for i, k := range keepers {
				if m, _ := k.Authority.Material(); m == nil || !m.isEqual(first) {
					t.Errorf("replica %d has another root", i)
				}
			}
			again := keeper(home, Rotation{})
			if err := again.LoadOrCreate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m, _ := again.Authority.Material(); !m.isEqual(first) {
				t.Error("after a restart there is another root")
			}
		})
	}
}

// TestReplicasRenewOneRoot: when several replicas renew an expiring root, they agree on one new
// root, which has the same key.
func TestReplicasRenewOneRoot(t *testing.T) {
	for name, place := range stores(t) {
		t.Run(name, func(t *testing.T) {
			home := place(t)
			old, err := SelfSigned{
				TrustDomain: "cluster.local",
				Lifetime:    time.Hour,
			}.NewRoot(rand.Reader, time.Now().Add(-55*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if err := home.Store(t.Context(), old, ""); err != nil {
				t.Fatal(err)
			}
			keepers := make([]*Reloader, 3)
			for i := range keepers {
				keepers[i] = keeper(home, Rotation{Interval: 20 * time.Millisecond, GracePercent: 20})
				runs(t, keepers[i])
			}
			before, err := old.Parse(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			serving.Until(t, limit, "all have one new root", func() bool {
				first, _ := keepers[0].Authority.Material()
				for _, k := range keepers {
					if m, _ := k.Authority.Material(); m.isEqual(before) || !m.isEqual(first) {
						return false
					}
				}
				return true
			})
			if m, _ := keepers[0].Authority.Material(); !samePublicKey(m.Key.Public(), before.Key.Public()) ||
				m.Certificate.Subject.String() != before.Certificate.Subject.String() {
				t.Error("the new root has another key, or another name")
			}
		})
	}
}

// TestExpiredRootIsRenewed: a control plane that was off until its root expired renews it.
func TestExpiredRootIsRenewed(t *testing.T) {
	for name, place := range stores(t) {
		t.Run(name, func(t *testing.T) {
			home := place(t)
			old, err := SelfSigned{
				TrustDomain: "cluster.local",
				Lifetime:    time.Hour,
			}.NewRoot(rand.Reader, time.Now().Add(-2*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if err := home.Store(t.Context(), old, ""); err != nil {
				t.Fatal(err)
			}
			k := keeper(home, Rotation{})
			if err := k.LoadOrCreate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m, _ := k.Authority.Material(); m == nil || m.NotAfter.Before(time.Now().Add(50*time.Minute)) {
				t.Error("the root was not renewed")
			}
		})
	}
}

// TestRotationByOperators rotates from root A to A and B, and then to B, in each format in which
// operators provide roots, with invalid data in between.
func TestRotationByOperators(t *testing.T) {
	a, b, c := pki.Authority("A"), pki.Authority("B"), pki.Authority("C")
	underA, underB := intermediate(a, &x509.Certificate{}), intermediate(b, &x509.Certificate{})
	underC := intermediate(c, &x509.Certificate{})
	mismatch := filesOfPairs(t, underB, nil, a, b)
	mismatch.Key = underA.KeyPEM()
	steps := []struct {
		name    string
		files   Files
		signing *pki.Pair
		roots   int
		refused string // the last error; "" if the files are accepted
	}{
		{"A", filesOfPairs(t, underA, nil, a), underA, 1, ""},
		{"B instead of A", filesOfPairs(t, underB, nil, b), underA, 1, "neither set of roots contains the other"},
		{"A, both trusted", filesOfPairs(t, underA, nil, a, b), underA, 2, ""},
		{"a key without its certificate", mismatch, underA, 2, "the signing key is not that of the signing certificate"},
		{"nothing", Files{Key: []byte(" ")}, underA, 2, "no certificate in PEM"},
		{"C instead of A", filesOfPairs(t, underC, nil, b, c), underA, 2, "neither set of roots contains the other"},
		{"B, both trusted", filesOfPairs(t, underB, nil, a, b), underB, 2, ""},
		{"B, both trusted, in another order", filesOfPairs(t, underB, nil, b, a), underB, 2, ""},
		{"B", filesOfPairs(t, underB, nil, b), underB, 1, ""},
	}
	for name, place := range map[string]func(*testing.T) (KeyStore, func(Files)){
		"mounted": func(t *testing.T) (KeyStore, func(Files)) {
			d := FileStore{Path: t.TempDir(), ReadOnly: true, PollInterval: poll}
			return d, func(f Files) { mount(t, d.Path, f) }
		},
		"files": func(t *testing.T) (KeyStore, func(Files)) {
			d := FileStore{Path: t.TempDir(), ReadOnly: true, PollInterval: poll}
			return d, func(f Files) {
				for name, text := range f.entries() { // one after the other
					if err := os.WriteFile(filepath.Join(d.Path, name), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
		"files of TLS": func(t *testing.T) (KeyStore, func(Files)) {
			d := FileStore{Path: t.TempDir(), ReadOnly: true, PollInterval: poll}
			return d, func(f Files) {
				for name, text := range map[string][]byte{"tls.crt": append(f.Certificate, f.Chain...), "tls.key": f.Key, "ca.crt": f.Roots} {
					if err := os.WriteFile(filepath.Join(d.Path, name), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
		"Secret cacerts": func(t *testing.T) (KeyStore, func(Files)) {
			longtest.Test(t) // the API server takes seconds to start
			c := shared.Start(t)
			s := SecretStore{Client: c.Client(t), Namespace: c.Namespace(t, "ca", nil), Name: PluggedSecret, ReadOnly: true}
			return s, func(f Files) {
				o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Data: f.entries()}
				_, err := s.Client.CoreV1().Secrets(s.Namespace).Update(t.Context(), o, metav1.UpdateOptions{})
				if err != nil {
					_, err = s.Client.CoreV1().Secrets(s.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, put := place(t)
			put(steps[0].files)
			var mu sync.Mutex
			refused := ""
			k := keeper(home, Rotation{})
			k.SelfSigned, k.OnLoadError = nil, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused = err.Error()
				}
			}
			runs(t, k)
			for _, step := range steps {
				put(step.files)
				if step.refused != "" { // a file that is being written can be refused for another reason before
					serving.Until(t, limit, step.name+" is refused", func() bool {
						mu.Lock()
						defer mu.Unlock()
						return strings.Contains(refused, step.refused)
					})
				}
				serving.Until(t, limit, step.name, func() bool {
					m, _ := k.Authority.Material()
					return m.Certificate.Equal(step.signing.Certificate) && len(m.Roots) == step.roots
				})
			}
			if err := home.Store(t.Context(), steps[0].files, ""); !errors.Is(err, errReadOnly) {
				t.Errorf("what operators brought is written to: %v", err)
			}
		})
	}
}

// TestFaultIsReportedAgain: a fault that lasts is reported once, and again if the files were valid in
// between, also if they are then those in use.
func TestFaultIsReportedAgain(t *testing.T) {
	a := pki.Authority("A")
	valid := filesOfPairs(t, intermediate(a, &x509.Certificate{}), nil, a)
	d := FileStore{Path: t.TempDir(), ReadOnly: true, PollInterval: poll}
	reported := 0
	k := keeper(d, Rotation{})
	k.SelfSigned, k.OnLoadError = nil, func(error) { reported++ }
	mount(t, d.Path, valid)
	if err := k.LoadOrCreate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		files Files
		want  int
	}{{Files{Key: []byte(" ")}, 1}, {Files{Key: []byte(" ")}, 1}, {valid, 1}, {Files{Key: []byte(" ")}, 2}} {
		mount(t, d.Path, step.files)
		k.reload(t.Context())
		if reported != step.want {
			t.Errorf("step %d: reported %d times, want %d", i, reported, step.want)
		}
	}
}

// mount puts files into a directory as kubelets do.
func mount(t *testing.T, dir string, f Files) {
	t.Helper()
	next, err := os.MkdirTemp(dir, "..20")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range f.entries() {
		if err := os.WriteFile(filepath.Join(next, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Base(next), filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// TestFilesArePrivate: files have mode 0600, and readers never see half of a pair.
func TestFilesArePrivate(t *testing.T) {
	d := FileStore{Path: filepath.Join(t.TempDir(), "a", "ca")}
	k := keeper(d, Rotation{})
	if err := k.LoadOrCreate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateTokenKey(d.Path, rand.Reader); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(d.Path, func(path string, e fs.DirEntry, err error) error {
		info, statErr := os.Stat(path)
		if err := errors.Join(err, statErr); err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if e.Type().IsRegular() {
			files++
		}
		return nil
	})
	if err != nil || files != 5 {
		t.Errorf("%d files, %v", files, err)
	}
	// A reader at any time has a pair.
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			f, _, err := d.Load(t.Context())
			if err == nil {
				_, err = f.Parse(time.Now())
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) &&
				!errors.Is(err, errNoAuthority) { // of the previous version, which is being removed
				t.Error(err)
				return
			}
		}
	})
	for range 100 {
		_, version, err := d.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Store(t.Context(), selfSigned(t), version); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	reading.Wait()
	if err := d.Store(t.Context(), selfSigned(t), "another version"); !errors.Is(err, errConflict) {
		t.Errorf("another version is overwritten: %v", err)
	}
	list, err := os.ReadDir(d.Path)
	if err != nil || len(list) != 7 { // four names, ..data, its target, and the key of tokens
		t.Errorf("%d entries are left: %v %v", len(list), list, err)
	}
}

// TestUnremovableFiles: new files stay in use if the directory of the previous ones cannot be removed.
func TestUnremovableFiles(t *testing.T) {
	d := FileStore{Path: t.TempDir()}
	if os.Geteuid() == 0 { // root can remove everything
		const other = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := errors.Join(os.Chmod(filepath.Dir(d.Path), 0o755), os.Chown(d.Path, other, other)); err != nil {
			t.Fatal(err)
		}
		root, err := unix.SetfsuidRetUid(other)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = unix.SetfsuidRetUid(root) }()
	}
	if err := d.Store(t.Context(), selfSigned(t), ""); err != nil {
		t.Fatal(err)
	}
	_, version, err := d.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := filepath.EvalSymlinks(filepath.Join(d.Path, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(before, 0o500); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(before, 0o700) }() // for the end of the test
	next := selfSigned(t)
	if err := d.Store(t.Context(), next, version); err == nil {
		t.Error("the previous files were removed")
	}
	if f, _, err := d.Load(t.Context()); err != nil || !bytes.Equal(f.Key, next.Key) {
		t.Errorf("the new files are not in use: %v", err)
	}
}

func TestTokenKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	keys := make([]any, 10)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := LoadOrCreateTokenKey(dir, rand.Reader)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = key.Public()
		})
	}
	all.Wait()
	for _, k := range keys {
		if !samePublicKey(keys[0], k) {
			t.Fatal("they have several keys")
		}
	}
	for name, text := range map[string]string{"garbage": "x", "nothing": "", "RSA": string(rsaPEM(t))} {
		bad := t.TempDir()
		if err := os.WriteFile(filepath.Join(bad, tokenKeyName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreateTokenKey(bad, rand.Reader); err == nil {
			t.Errorf("%s is accepted as a key", name)
		}
	}
}

func rsaPEM(t *testing.T) []byte {
	text, err := EncodeKey(rsaKey(t, 2048))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestUnreadableStoreCreatesNoRoot: a store that cannot be read is an error, and no reason to
// create another root.
func TestUnreadableStoreCreatesNoRoot(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"a key that is garbage":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "ca-key.pem"), []byte("x"), 0o600) },
		"a key that is a directory": func(dir string) error { return os.Mkdir(filepath.Join(dir, "ca-key.pem"), 0o700) },
		"a certificate that is gone": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ca-key.pem"), pki.Authority("x").KeyPEM(), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			k := keeper(FileStore{Path: dir}, Rotation{})
			if err := k.LoadOrCreate(t.Context()); err == nil {
				m, _ := k.Authority.Material()
				t.Errorf("it signs with %v", m.Certificate.Subject)
			}
		})
	}
}

// TestBothLayouts: a Secret with the names of a TLS Secret and Istio's is read by the former, if it has
// a key.
func TestBothLayouts(t *testing.T) {
	entries := map[string]string{"ca-key.pem": "istio", "ca-cert.pem": "istio", "tls.key": "tls", "tls.crt": "tls", "ca-crl.pem": "crl"}
	read := func(name string) []byte { return []byte(entries[name]) }
	f, err := filesFrom(read)
	if err != nil || string(f.Key) != "tls" || string(f.Certificate) != "tls" || string(f.RevocationLists) != "crl" {
		t.Errorf("with both: %q %q, error %v", f.Key, f.Certificate, err)
	}
	delete(entries, "tls.key")
	if f, err = filesFrom(read); err != nil || string(f.Key) != "istio" || string(f.Certificate) != "istio" {
		t.Errorf("without tls.key: %q %q, error %v", f.Key, f.Certificate, err)
	}
	delete(entries, "ca-key.pem")
	if _, err = filesFrom(read); !errors.Is(err, errNoAuthority) {
		t.Errorf("without a key: error %v", err)
	}
}
