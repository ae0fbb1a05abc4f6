package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshpilot/meshpilot/test/support/program"
)

// upstream is a program of a cluster, or one that tests of clusters use.
type upstream struct {
	name string
	// module is its directory below test/support/cluster/programs, pkg the package in it.
	module, pkg string
}

// allPrograms lists all of them.
func allPrograms() []upstream {
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

// Programs are the programs of a cluster. They are built from the Go modules in
// test/support/cluster/programs, each at its first use, and cached in the user's cache directory.
type Programs struct {
	sources string // test/support/cluster/programs
	say     func(format string, args ...any)
}

// FindPrograms returns the cache of this checkout's programs; it builds nothing. say, if not nil,
// receives messages about builds, which take minutes.
func FindPrograms(say func(format string, args ...any)) (*Programs, error) {
	root, err := program.Root()
	if err != nil {
		return nil, err
	}
	if say == nil {
		say = func(string, ...any) {}
	}
	return &Programs{sources: filepath.Join(root, "test", "support", "cluster", "programs"), say: say}, nil
}

// Names lists the programs that there are to build.
func (p *Programs) Names() []string {
	var names []string
	for _, prog := range allPrograms() {
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
		return "", errors.New("find the version of Kubernetes: it is not in go.mod")
	}
	version, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(version), nil
}

// Path returns a program, and builds it if it is not there: once, however many ask at the same
// time, in this process or others.
func (p *Programs) Path(ctx context.Context, name string) (string, error) {
	for _, prog := range allPrograms() {
		if prog.name == name {
			path, err := p.programPath(ctx, prog)
			if err != nil {
				return "", fmt.Errorf("build %s: %w", name, err)
			}
			return path, nil
		}
	}
	return "", fmt.Errorf("no program %q", name)
}

// programPath returns the path of a program. It builds the program unless it is in the cache.
func (p *Programs) programPath(ctx context.Context, prog upstream) (string, error) {
	m := program.Module{Dir: filepath.Join(p.sources, prog.module), Name: prog.module}
	flags := "-s -w"
	if prog.module == kubernetesModule {
		version, err := p.KubernetesVersion()
		if err != nil {
			return "", err
		}
		m.Name += "-" + version
		flags += versionFlags(version)
	}
	return m.Build(
		ctx,
		prog.name,
		prog.pkg,
		flags,
		func() { p.say("building %s for test clusters: once, up to 4 minutes", prog.name) },
	)
}

// versionFlags set the version of the programs of Kubernetes. Without them it is v0.0.0, which
// kubectl and Istio do not support.
func versionFlags(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var flags strings.Builder
	variables := [][2]string{
		{"gitVersion", "v" + version},
		{"gitMajor", major},
		{"gitMinor", minor},
		{"gitTreeState", "clean"},
	}
	for _, v := range variables {
		fmt.Fprintf(&flags, " -X k8s.io/component-base/version.%s=%s", v[0], v[1])
	}
	return flags.String()
}
