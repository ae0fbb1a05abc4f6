package diskfull

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/identity"
	"github.com/meshpilot/meshpilot/internal/agent/wasm"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	testwasm "github.com/meshpilot/meshpilot/test/support/wasm"
)

// writer is a component that stores data in a directory.
type writer struct {
	name string
	// write stores version n.
	write func(ctx context.Context, dir string, n int) error
	// read returns the stored version, or "" if none is stored.
	read func(dir string) (string, error)
	// want is the result of read for version n.
	want func(n int) string
}

// content is large enough to need several pages of the disk.
func content(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "version %d\n", n), 2000) }

func readFile(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

func writers(t *testing.T) []writer {
	t.Helper()
	whole := func(n int) string { return string(content(n)) }
	certificates := func(n int) string { return strings.Repeat(whole(n), 3) }
	authorities := map[int]ca.Files{}
	for n := range 20 {
		f, err := ca.SelfSigned{TrustDomain: "cluster.local", Lifetime: time.Hour * 24 * 365}.NewRoot(rand.Reader, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		f.Chain = append(f.Chain, f.Certificate...)
		authorities[n] = f
	}
	return []writer{
		{
			"workload certificates",
			func(_ context.Context, dir string, n int) error {
				return identity.WriteFiles(filepath.Join(dir, "certs"), identity.OwnerReads, time.Unix(int64(n), 0), content(n), content(n), content(n))
			},
			func(dir string) (string, error) {
				var all string
				for _, name := range []string{"cert-chain.pem", "key.pem", "root-cert.pem"} {
					text, err := readFile(filepath.Join(dir, "certs", name))
					if err != nil {
						return "", err
					}
					all += text
				}
				return all, nil
			}, certificates,
		},
		{
			"bootstrap",
			func(_ context.Context, dir string, n int) error {
				return bootstrap.WriteFile(filepath.Join(dir, "proxy", "envoy-rev.json"), content(n), bootstrap.OwnerOnly)
			},
			func(dir string) (string, error) { return readFile(filepath.Join(dir, "proxy", "envoy-rev.json")) }, whole,
		},
		{
			"keys of token issuers",
			func(ctx context.Context, dir string, n int) error {
				return jwks.FileCache{Path: filepath.Join(dir, "keys.json")}.Update(ctx, func([]byte) []byte { return content(n) })
			},
			func(dir string) (string, error) { return readFile(filepath.Join(dir, "keys.json")) }, whole,
		},
		{
			"authority",
			func(ctx context.Context, dir string, n int) error {
				home := ca.FileStore{Path: filepath.Join(dir, "ca")}
				_, version, err := home.Load(ctx)
				if _, none := os.Lstat(filepath.Join(dir, "ca", "..data")); none != nil {
					version, err = "", nil
				}
				if err != nil {
					return err
				}
				return home.Store(ctx, authorities[n], version)
			},
			func(dir string) (string, error) {
				f, _, err := ca.FileStore{Path: filepath.Join(dir, "ca")}.Load(context.Background())
				return string(f.Certificate) + string(f.Key), err
			},
			func(n int) string { return string(authorities[n].Certificate) + string(authorities[n].Key) },
		},
	}
}

// TestWriters writes to a full disk, to a read-only disk, and to one that has space again. A failed
// write returns an error with its cause, the previous version stays complete, and no file is left
// behind that would fill the disk.
func TestWriters(t *testing.T) {
	rounds := scorecard.BySize(longtest.Rounds(1, 4), 6, 6)
	list := writers(t)
	check := scorecard.Check(t, 26, scorecard.Size("writers", len(list)), scorecard.Size("rounds of full and read-only", rounds))
	failed, truncated := 0, 0
	for _, w := range list {
		t.Run(w.name, func(t *testing.T) {
			d := newDisk(t)
			holds := func(n int) {
				t.Helper()
				if got, err := w.read(d.path); err != nil || got != w.want(n) {
					truncated++
					t.Errorf("a reader sees %d bytes that are not version %d (%d bytes): %v", len(got), n, len(w.want(n)), err)
				}
			}
			refused := func(n int, want error) {
				t.Helper()
				err := w.write(t.Context(), d.path, n)
				if err == nil || !errors.Is(err, want) || !strings.Contains(err.Error(), "write") && !strings.Contains(err.Error(), d.path) {
					t.Errorf("error = %v, want one that names the file, and %v", err, want)
				} else {
					failed++
				}
			}
			n := 0
			for range rounds {
				n++
				if err := w.write(t.Context(), d.path, n); err != nil {
					t.Fatal(err)
				}
				holds(n)
				before := d.files()
				d.fill()
				for range 3 {
					refused(n+1, syscall.ENOSPC)
					holds(n)
				}
				if after := d.files(); after > before+1 {
					t.Errorf("%d files more after attempts on a full disk", after-before-1)
				}
				d.free()
				d.remount(true)
				refused(n+1, syscall.EROFS)
				holds(n)
				d.remount(false)
			}
			n++
			if err := w.write(t.Context(), d.path, n); err != nil {
				t.Errorf("with space again: %v", err)
			}
			holds(n)
		})
	}
	check.Measured("writes that failed", failed)
	check.Measured("truncated files", truncated)
}

// files counts files, directories and links.
func (d *disk) files() (n int) {
	d.t.Helper()
	err := filepath.WalkDir(d.path, func(string, fs.DirEntry, error) error {
		n++
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// TestModulesOnAFullDisk: a Wasm module that cannot be written is an error, and none that is cut off is ever given to Envoy. The next attempt
// with space succeeds.
func TestModulesOnAFullDisk(t *testing.T) {
	scorecard.Check(t, 26, scorecard.Size("modules", 2))
	d := newDisk(t)
	module := func(name string) []byte { return testwasm.AddsHeader("x", name) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(module(r.URL.Path[1:])) // the test checks what was received
	}))
	defer server.Close()
	cache := wasm.NewCache(wasm.Options{Dir: filepath.Join(d.path, "modules"), Timeout: 10 * time.Second, Dialer: new(net.Dialer), Log: slog.New(slog.DiscardHandler), Metrics: wasm.NewMetrics(prometheus.NewRegistry())})
	fetch := func(name string) error {
		path, err := cache.FilePath(t.Context(), wasm.Module{URL: server.URL + "/" + name})
		if err != nil {
			return err
		}
		if got, err := readFile(path); err != nil || got != string(module(name)) {
			return errors.Join(fmt.Errorf("a file of %d bytes, want %d", len(got), len(module(name))), err)
		}
		return nil
	}
	if err := fetch("a"); err != nil {
		t.Fatal(err)
	}
	d.fill()
	full := fetch("b")
	if !errors.Is(full, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", full)
	}
	if err := fetch("a"); err != nil {
		t.Errorf("the module that was there: %v", err)
	}
	d.free()
	d.remount(true)
	if err := fetch("b"); !errors.Is(err, syscall.EROFS) {
		t.Errorf("on a read-only disk: %v", err)
	}
	d.remount(false)
	if err := fetch("b"); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
