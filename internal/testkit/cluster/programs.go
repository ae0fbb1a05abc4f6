package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/meshpilot/meshpilot/internal/testkit/program"
)

// upstream is a program that a cluster is made of, or that tests of clusters use.
type upstream struct {
	name string
	// module is its directory below test/cluster/programs, pkg the package in it.
	module, pkg string
}

// programs lists all of them.
func programs() []upstream {
	return []upstream{
		{"etcd", kubernetesModule, "./etcd"},
		{"kube-apiserver", kubernetesModule, "./kube-apiserver"},
		{"kube-controller-manager", kubernetesModule, "./kube-controller-manager"},
		{"kube-proxy", kubernetesModule, "./kube-proxy"},
		{"kubectl", kubernetesModule, "./kubectl"},
		{"coredns", "coredns", "."},
		{"helm", "helm", "helm.sh/helm/v3/cmd/helm"},
	}
}

const kubernetesModule = "kubernetes"

// Programs are what a cluster is made of. They are built from the Go modules in test/cluster/programs, each when it is asked
// for the first time, and kept in the user's cache directory.
type Programs struct {
	sources string // test/cluster/programs
	cache   string
	say     func(format string, args ...any)
}

// FindPrograms says where the programs of this checkout are kept; it builds nothing. say is told of builds, which take
// minutes; nil: nobody is.
func FindPrograms(say func(format string, args ...any)) (*Programs, error) {
	root, err := program.Root()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the cache directory: %w", err)
	}
	if say == nil {
		say = func(string, ...any) {}
	}
	return &Programs{sources: filepath.Join(root, "test", "cluster", "programs"), cache: filepath.Join(cache, "meshpilot"), say: say}, nil
}

// Names lists the programs that there are to build.
func (p *Programs) Names() []string {
	var names []string
	for _, prog := range programs() {
		names = append(names, prog.name)
	}
	return names
}

// KubernetesVersion is that of the programs of Kubernetes, such as "1.35.4".
func (p *Programs) KubernetesVersion() (string, error) {
	gomod, err := os.ReadFile(filepath.Join(p.sources, kubernetesModule, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("find the version of Kubernetes: %w", err)
	}
	_, rest, found := strings.Cut(string(gomod), "k8s.io/kubernetes v")
	if !found {
		return "", errors.New("find the version of Kubernetes: go.mod does not say it")
	}
	version, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(version), nil
}

// Path gives a program, and builds it if it is not there: once, however many ask at the same time, in this process or others.
func (p *Programs) Path(ctx context.Context, name string) (string, error) {
	for _, prog := range programs() {
		if prog.name == name {
			path, err := p.path(ctx, prog)
			if err != nil {
				return "", fmt.Errorf("build %s: %w", name, err)
			}
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no program %q", name)
}

// path names the directory by all that a program is made of: another version is another directory.
func (p *Programs) path(ctx context.Context, prog upstream) (string, error) {
	hash, err := hashOf(filepath.Join(p.sources, prog.module))
	if err != nil {
		return "", err
	}
	dir := prog.module + "-" + hash
	flags := "-s -w"
	if prog.module == kubernetesModule {
		version, err := p.KubernetesVersion()
		if err != nil {
			return "", err
		}
		dir = prog.module + "-" + version + "-" + hash
		flags += versionFlags(version)
	}
	path := filepath.Join(p.cache, dir, prog.name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, p.build(ctx, prog, flags, path)
}

func (p *Programs) build(ctx context.Context, prog upstream, flags, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	unlock, err := program.Lock(filepath.Join(filepath.Dir(path), ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return nil // built while we waited
	}
	p.say("building %s for test clusters: once, up to 4 minutes", prog.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", flags, "-o", path+".tmp", prog.pkg)
	cmd.Dir = filepath.Join(p.sources, prog.module)
	// The modules say exactly what is built; flags meant for the product do not.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(out, 30))
	}
	return os.Rename(path+".tmp", path)
}

// versionFlags give the programs of Kubernetes their version: without, they call themselves v0.0.0, at which kubectl and Istio
// stumble.
func versionFlags(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var flags strings.Builder
	for _, v := range [][2]string{{"gitVersion", "v" + version}, {"gitMajor", major}, {"gitMinor", minor}, {"gitTreeState", "clean"}} {
		fmt.Fprintf(&flags, " -X k8s.io/component-base/version.%s=%s", v[0], v[1])
	}
	return flags.String()
}

// hashOf hashes the names and contents of all files below a directory, and what builds them.
func hashOf(dir string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		fmt.Fprintf(h, "%s %d\n%s", rel, len(content), content)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), err
}

// moduleDir gives the directory of a module that this one depends on.
func moduleDir(ctx context.Context, root, module string) (string, error) {
	for _, args := range [][]string{{"list", "-m"}, {"mod", "download"}, {"list", "-m"}} {
		if args[0] == "list" {
			args = append(args, "-f", "{{.Dir}}")
		}
		cmd := exec.CommandContext(ctx, "go", append(args, module)...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("find module %s: %w", module, err)
		}
		if dir := string(bytes.TrimSpace(out)); args[0] == "list" && dir != "" {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find module %s: it is not there after its download", module)
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
