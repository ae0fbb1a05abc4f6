package secret

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// waitTimeout bounds every wait.
const waitTimeout = 20 * time.Second

type fixture struct {
	*Files
	failures atomic.Int64
}

func startFiles(t *testing.T, named ...FileSecret) *fixture {
	t.Helper()
	return startWithCRLs(t, "", named...)
}

// startWithCRLs starts Files with a file of revocation lists.
func startWithCRLs(t *testing.T, revoked string, named ...FileSecret) *fixture {
	t.Helper()
	w := &fixture{}
	w.Files = &Files{
		Store: NewStore(), Log: slog.New(slog.DiscardHandler), OnFailure: func() { w.failures.Add(1) },
		Watch: watch.Options{Settle: time.Millisecond, Poll: 50 * time.Millisecond},
	}
	if revoked != "" {
		w.CRLPaths = []string{revoked}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, named...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// awaitSecret waits until the secret satisfies the condition.
func (w *fixture) awaitSecret(t *testing.T, name string, is func(Secret) bool) {
	t.Helper()
	limit := time.After(waitTimeout)
	for {
		changed := w.Store.Changed()
		v, ok := w.Store.Get(name)
		if ok && is(v.Secret) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%s is %+v", name, v)
		}
	}
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRotations tests that each of a hundred key pairs is read, whichever of its files is written
// first, and that two pairs are never mixed.
func TestRotations(t *testing.T) {
	dir := t.TempDir()
	chain, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	w := startFiles(t)
	name := mesh.FileCertificate(chain, key)
	if !w.WatchIfFile(t.Context(), name) || w.WatchIfFile(t.Context(), "default") {
		t.Fatal("names of files are not distinguished from other names")
	}
	root := pki.Authority("root")
	for i := range 100 {
		pair := root.Issue(&x509.Certificate{})
		if i%2 == 0 {
			writeFile(t, key, pair.KeyPEM())
			writeFile(t, chain, pair.CertificatePEM())
		} else {
			writeFile(t, chain, pair.CertificatePEM())
			writeFile(t, key, pair.KeyPEM())
		}
		w.awaitSecret(t, name, func(s Secret) bool {
			return bytes.Equal(s.Chain, pair.CertificatePEM()) && bytes.Equal(s.Key, pair.KeyPEM())
		})
	}
	w.WatchIfFile(t.Context(), name) // repeated requests have no effect
}

// TestMountedSecret tests the symlink switch by which kubelet updates a mounted Secret.
func TestMountedSecret(t *testing.T) {
	dir := t.TempDir()
	root := pki.Authority("root")
	flip := func(i int) *pki.Pair {
		pair := root.Issue(&x509.Certificate{})
		version := fmt.Sprintf("..%d", i)
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, version, "tls.crt"), pair.CertificatePEM())
		writeFile(t, filepath.Join(dir, version, "tls.key"), pair.KeyPEM())
		if err := os.Symlink(version, filepath.Join(dir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		return pair
	}
	flip(0)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w := startFiles(t, FileSecret{Name: WorkloadName, Chain: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")})
	for i := range 20 {
		pair := flip(i + 1)
		w.awaitSecret(t, WorkloadName, func(s Secret) bool { return bytes.Equal(s.Chain, pair.CertificatePEM()) })
	}
}

// TestLastGood tests that an invalid or deleted file does not replace the last good secret.
func TestLastGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roots")
	root := pki.Authority("root")
	writeFile(t, path, root.CertificatePEM())
	w := startFiles(t)
	name := mesh.FileRoots(path)
	w.WatchIfFile(t.Context(), name)
	good := func(s Secret) bool { return bytes.Equal(s.Roots, root.CertificatePEM()) }
	w.awaitSecret(t, name, good)
	for i, bad := range []string{"no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		writeFile(t, path, []byte(bad))
		for deadline := time.Now().Add(waitTimeout); w.failures.Load() < int64(i+1); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no failure is reported for", bad)
			}
		}
		w.awaitSecret(t, name, good)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.awaitSecret(t, name, good)
	next := pki.Authority("next")
	writeFile(t, path, next.CertificatePEM())
	w.awaitSecret(t, name, func(s Secret) bool { return bytes.Equal(s.Roots, next.CertificatePEM()) })
}

func TestJoin(t *testing.T) {
	a, b := pki.Authority("a").CertificatePEM(), pki.Authority("b").CertificatePEM()
	got, err := JoinCertificates(append([]byte("# a comment\n"), a...), append(b, a...), nil)
	if want := string(a) + string(b); err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// TestRevoked tests that revocation lists are attached only to the mesh's roots, wherever the
// roots come from, and that invalid lists do not replace valid ones.
func TestRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca-crl.pem")
	root := pki.Authority("root")
	trust, err := ParseRoots(root.CertificatePEM())
	if err != nil {
		t.Fatal(err)
	}
	w := startWithCRLs(t, path)
	w.Store.Set(RootsName, trust)
	w.Store.Set("others", trust)
	first, second := root.Revoke(), root.Revoke(root.Certificate.SerialNumber)
	writeFile(t, path, first)
	w.awaitSecret(t, RootsName, func(s Secret) bool { return bytes.Equal(s.CRLs, first) })
	writeFile(t, path, append(slices.Clone(second), "no PEM"...))
	for deadline := time.Now().Add(waitTimeout); w.failures.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no failure is reported for an invalid list")
		}
	}
	w.Store.Set(RootsName, trust) // setting the roots again keeps the lists
	w.awaitSecret(t, RootsName, func(s Secret) bool { return bytes.Equal(s.CRLs, first) })
	writeFile(t, path, second)
	w.awaitSecret(t, RootsName, func(s Secret) bool { return bytes.Equal(s.CRLs, second) })
	w.awaitSecret(t, "others", func(s Secret) bool { return s.CRLs == nil })
}

// TestSystemRoots tests that file-root:system is the first existing file of the system's root
// certificates.
func TestSystemRoots(t *testing.T) {
	bundle, err := os.ReadFile(SystemRoots())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI needs a bundle of certificate authorities (the package ca-certificates): ", err)
		}
		t.Skip("no bundle of certificate authorities is installed: ", err)
	}
	w, name := startFiles(t), mesh.FileRoots(mesh.SystemRoots)
	if !w.WatchIfFile(t.Context(), name) {
		t.Fatal("the name is not one of files")
	}
	w.awaitSecret(t, name, func(s Secret) bool { return bytes.Equal(s.Roots, bundle) })
}
