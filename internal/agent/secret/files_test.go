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

// patience bounds every wait.
const patience = 20 * time.Second

type world struct {
	*Files
	failures atomic.Int64
}

func start(t *testing.T, named ...Named) *world {
	t.Helper()
	return startRevoking(t, "", named...)
}

// startRevoking has lists of revoked certificates come in a file.
func startRevoking(t *testing.T, revoked string, named ...Named) *world {
	t.Helper()
	w := &world{}
	w.Files = &Files{
		Store: NewStore(), Log: slog.New(slog.DiscardHandler), Failed: func() { w.failures.Add(1) },
		Watch: watch.Options{Settle: time.Millisecond, Poll: 50 * time.Millisecond},
	}
	if revoked != "" {
		w.Revoked = []string{revoked}
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

// await waits until the secret is so.
func (w *world) await(t *testing.T, name string, is func(Secret) bool) {
	t.Helper()
	limit := time.After(patience)
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

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRotations: each of a hundred pairs of files is seen, written in whichever order; none is ever mixed with another.
func TestRotations(t *testing.T) {
	dir := t.TempDir()
	chain, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	w := start(t)
	name := mesh.FileCertificate(chain, key)
	if !w.Want(t.Context(), name) || w.Want(t.Context(), "default") {
		t.Fatal("the names of files are not told from others")
	}
	root := pki.Authority("root")
	for i := range 100 {
		pair := root.Issue(&x509.Certificate{})
		if i%2 == 0 {
			put(t, key, pair.KeyPEM())
			put(t, chain, pair.CertificatePEM())
		} else {
			put(t, chain, pair.CertificatePEM())
			put(t, key, pair.KeyPEM())
		}
		w.await(t, name, func(s Secret) bool {
			return bytes.Equal(s.Chain, pair.CertificatePEM()) && bytes.Equal(s.Key, pair.KeyPEM())
		})
	}
	w.Want(t.Context(), name) // once more is nothing new
}

// TestMountedSecret: files as kubelet mounts them, switched over all at once.
func TestMountedSecret(t *testing.T) {
	dir := t.TempDir()
	root := pki.Authority("root")
	flip := func(i int) *pki.Pair {
		pair := root.Issue(&x509.Certificate{})
		version := fmt.Sprintf("..%d", i)
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, version, "tls.crt"), pair.CertificatePEM())
		put(t, filepath.Join(dir, version, "tls.key"), pair.KeyPEM())
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
	w := start(t, Named{Name: Workload, Chain: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")})
	for i := range 20 {
		pair := flip(i + 1)
		w.await(t, Workload, func(s Secret) bool { return bytes.Equal(s.Chain, pair.CertificatePEM()) })
	}
}

// TestLastGood: what cannot be used, and a file that is gone, leave what there was.
func TestLastGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roots")
	root := pki.Authority("root")
	put(t, path, root.CertificatePEM())
	w := start(t)
	name := mesh.FileRoots(path)
	w.Want(t.Context(), name)
	good := func(s Secret) bool { return bytes.Equal(s.Roots, root.CertificatePEM()) }
	w.await(t, name, good)
	for i, bad := range []string{"no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		put(t, path, []byte(bad))
		for deadline := time.Now().Add(patience); w.failures.Load() < int64(i+1); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nobody complains of", bad)
			}
		}
		w.await(t, name, good)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.await(t, name, good)
	next := pki.Authority("next")
	put(t, path, next.CertificatePEM())
	w.await(t, name, func(s Secret) bool { return bytes.Equal(s.Roots, next.CertificatePEM()) })
}

func TestJoin(t *testing.T) {
	a, b := pki.Authority("a").CertificatePEM(), pki.Authority("b").CertificatePEM()
	got, err := Join(append([]byte("# a comment\n"), a...), append(b, a...), nil)
	if want := string(a) + string(b); err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// TestRevoked: lists of revoked certificates go with the mesh's roots, whoever brings these, and with nothing else; wrong ones leave
// those that there were.
func TestRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca-crl.pem")
	root := pki.Authority("root")
	trust, err := Trust(root.CertificatePEM())
	if err != nil {
		t.Fatal(err)
	}
	w := startRevoking(t, path)
	w.Store.Set(Roots, trust)
	w.Store.Set("others", trust)
	first, second := root.Revoke(), root.Revoke(root.Certificate.SerialNumber)
	put(t, path, first)
	w.await(t, Roots, func(s Secret) bool { return bytes.Equal(s.Revoked, first) })
	put(t, path, append(slices.Clone(second), "no PEM"...))
	for deadline := time.Now().Add(patience); w.failures.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody complains of a wrong list")
		}
	}
	w.Store.Set(Roots, trust) // somebody brings the roots anew
	w.await(t, Roots, func(s Secret) bool { return bytes.Equal(s.Revoked, first) })
	put(t, path, second)
	w.await(t, Roots, func(s Secret) bool { return bytes.Equal(s.Revoked, second) })
	w.await(t, "others", func(s Secret) bool { return s.Revoked == nil })
}

// TestSystemRoots tests that the name file-root:system stands for the first file of the system's authorities that is there.
func TestSystemRoots(t *testing.T) {
	bundle, err := os.ReadFile(SystemRoots())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI needs a bundle of certificate authorities (the package ca-certificates): ", err)
		}
		t.Skip("no bundle of certificate authorities is installed: ", err)
	}
	w, name := start(t), mesh.FileRoots(mesh.SystemRoots)
	if !w.Want(t.Context(), name) {
		t.Fatal("the name is not one of files")
	}
	w.await(t, name, func(s Secret) bool { return bytes.Equal(s.Roots, bundle) })
}
