package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// debianPackage is a file of Debian 12 that is put into images.
type debianPackage struct {
	name, version, arch string
	// archive is debian or debian-security; path is below it.
	archive, path, sha256 string
}

// architecture is what images of one architecture are made of beside the programs. Envoy's hash is
// in hack/envoy.sh.
type architecture struct {
	libc, roots debianPackage
	// wheel is the architecture's name in Python's packages.
	wheel string
}

// pins returns the architectures by Go's names. Debian's mirrors drop a version when the next one
// is released; --debian-mirror can name a snapshot, which keeps them. To update, take version and
// SHA256 from `apt-cache show libc6 ca-certificates` of Debian 12.
func pins() map[string]architecture {
	roots := debianPackage{
		name: "ca-certificates", version: "20250419~deb12u2", arch: "all",
		archive: "debian-security",
		path:    "pool/updates/main/c/ca-certificates/ca-certificates_20250419~deb12u2_all.deb",
		sha256:  "b9f76b5271a7ac373fd5e7e1b5b826a71ddd702b42a0d104955ecb1acfffc94b",
	}
	libc := func(arch, sum string) debianPackage {
		const version = "2.36-9+deb12u14"
		return debianPackage{
			name: "libc6", version: version, arch: arch,
			archive: "debian",
			path:    "pool/main/g/glibc/libc6_" + version + "_" + arch + ".deb",
			sha256:  sum,
		}
	}
	return map[string]architecture{
		"amd64": {
			libc:  libc("amd64", "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf"),
			roots: roots,
			wheel: "manylinux_2_31_x86_64",
		},
		"arm64": {
			libc:  libc("arm64", "01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4"),
			roots: roots,
			wheel: "manylinux_2_31_aarch64",
		},
	}
}

// envoyVersion is the release of Envoy in packages and images, the default of hack/envoy.sh.
const envoyVersion = "1.40.0"

// archivePlaceholder stands in --debian-mirror for the archive of a package.
const archivePlaceholder = "{archive}"

// fetchTimeout bounds the download of one package.
const fetchTimeout = 5 * time.Minute

// fetchPackage returns the path of a Debian package in the user's cache, and downloads it from the
// mirror if it is not there. It returns an error if the hash differs from the pinned one.
func (r *release) fetchPackage(ctx context.Context, p debianPackage) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "meshpilot", "debian")
	file := filepath.Join(dir, path.Base(p.path))
	if checkHash(file, p.sha256) == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	partial := filepath.Join(r.work, path.Base(p.path))
	url := strings.ReplaceAll(r.debianMirror, archivePlaceholder, p.archive) + "/" + p.path
	if err := download(ctx, url, partial); err != nil {
		return "", fmt.Errorf("fetch %s %s: %w; --debian-mirror can name a snapshot that has this version", p.name, p.version, err)
	}
	if err := checkHash(partial, p.sha256); err != nil {
		return "", err
	}
	content, err := os.ReadFile(partial)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, content, 0o644) //nolint:gosec // packages are public
}

// download writes the answer of a GET request into a file. Another status than 200 is an error.
func download(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return createFile(file, func(w io.Writer) error {
		_, err := io.Copy(w, answer.Body)
		return err
	})
}

// checkHash returns an error if a file is missing, or if its SHA-256 is not the wanted one.
func checkHash(file, want string) error {
	got, err := hashFile(file)
	if err == nil && got != want {
		err = errors.New(file + " has the SHA-256 " + got + ", not the pinned " + want)
	}
	return err
}

// hashFile returns the SHA-256 of a file in hexadecimal.
func hashFile(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
