package identity

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestOutput tests that a reader of the directory never sees a certificate with another one's key
// during renewal.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("of somebody else"), 0o644); err != nil {
		t.Fatal(err)
	}
	root := pki.Authority("root")
	write := func() {
		leaf := root.Issue(&x509.Certificate{})
		if err := WriteFiles(dir, OwnerReads, time.Now(), leaf.CertificatePEM(), leaf.KeyPEM(), root.CertificatePEM()); err != nil {
			t.Fatal(err)
		}
	}
	write()
	var stop atomic.Bool
	read := make(chan int, 1)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			version, err := os.Readlink(filepath.Join(dir, currentLink))
			if err != nil {
				t.Error(err)
			}
			version = filepath.Join(dir, version)
			_, err = tls.LoadX509KeyPair(filepath.Join(version, chainFile), filepath.Join(version, keyFile))
			if err != nil && !os.IsNotExist(err) { // replaced while it was read
				t.Error(err)
			}
		}
		read <- n
	}()
	for range 100 {
		write()
	}
	stop.Store(true)
	if n := <-read; n == 0 {
		t.Error("no reader has read the directory")
	}
	for name, want := range map[string]os.FileMode{keyFile: 0o600, chainFile: 0o644, rootsFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 5 { // three links, the link to the version, the version
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, chainFile), filepath.Join(dir, keyFile)); err != nil {
		t.Error(err)
	}
	for who, want := range map[KeyMode][2]os.FileMode{OwnerReads: {0o600, 0o755}, GroupReads: {0o640, 0o755}, AllRead: {0o644, 0o755}} {
		if err := WriteFiles(dir, who, time.Now(), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{keyFile, currentLink} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want[i] {
				t.Errorf("for %o, %s: %v, %v", who, name, info.Mode(), err)
			}
		}
	}
	// Permissions left by an earlier release are removed, and no permissions are added.
	if err := RestrictKey(dir, OwnerReads); err != nil {
		t.Error(err)
	}
	if err := RestrictKey(dir, AllRead); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("an existing key: %v, %v", info.Mode(), err)
	}
	if err := RestrictKey(t.TempDir(), OwnerReads); err != nil {
		t.Errorf("a directory without a key: %v", err)
	}
	if err := WriteFiles(filepath.Join(dir, keyFile, "x"), OwnerReads, time.Now(), nil, nil, nil); err == nil {
		t.Error("no error where there can be no directory")
	}
}

// TestFailureAfterTheSwitch: if a file name cannot become a link, because it is a directory, the
// version to which ..data has been switched stays readable.
func TestFailureAfterTheSwitch(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, chainFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFiles(dir, OwnerReads, time.Now(), []byte("chain"), []byte("key"), []byte("roots")); err == nil {
		t.Fatal("a directory in the way is no error")
	}
	for name, want := range map[string]string{chainFile: "chain", keyFile: "key", rootsFile: "roots"} {
		if got, err := os.ReadFile(filepath.Join(dir, currentLink, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
