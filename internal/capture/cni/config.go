package cni

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	// The results that plugins before this one may have given, by version of the specification.
	_ "github.com/containernetworking/cni/pkg/types/020"
	_ "github.com/containernetworking/cni/pkg/types/040"
	_ "github.com/containernetworking/cni/pkg/types/100"
)

const (
	// Name is the plugin's, as in configurations and as a file.
	Name = "istio-cni"
	// KubeconfigName is the file in Config.RunDir by which the plugin speaks to the API server.
	KubeconfigName = "istio-cni-kubeconfig"
	// DefaultRunDir is where the installer leaves files for the plugin.
	DefaultRunDir = "/var/run/istio-cni"
	// agentPrefix is what the names of the installer's own pods start with.
	agentPrefix = "istio-cni-node-"
)

// Config is the plugin's entry in a network configuration. The keys are Istio's; those in Kubernetes and LogLevel are of its
// earlier releases.
type Config struct {
	types.PluginConf

	// PluginLogLevel is debug, info, warn or error.
	PluginLogLevel string `json:"plugin_log_level,omitempty"`
	LogLevel       string `json:"log_level,omitempty"`
	// RunDir has the kubeconfig and the log.
	RunDir string `json:"cni_agent_run_dir,omitempty"`
	// ExcludeNamespaces are those of pods that are left alone.
	ExcludeNamespaces []string `json:"exclude_namespaces,omitempty"`
	// PodNamespace is that of the installer. Its own pods must start without the plugin, which waits for them.
	PodNamespace string `json:"pod_namespace,omitempty"`
	// NativeNftables applies rules over netlink.
	NativeNftables bool `json:"native_nftables,omitempty"`
	// AmbientEnabled is not supported.
	AmbientEnabled bool        `json:"ambient_enabled,omitempty"`
	Kubernetes     *Kubernetes `json:"kubernetes,omitempty"`
}

// Kubernetes is where earlier releases of Istio's plugin have keys.
type Kubernetes struct {
	Kubeconfig        string   `json:"kubeconfig,omitempty"`
	ExcludeNamespaces []string `json:"exclude_namespaces,omitempty"`
}

// ParseConfig reads a network configuration, with the result of the plugin before this one.
func ParseConfig(text []byte) (*Config, error) {
	c := new(Config)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "reading the network configuration", err.Error())
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "reading prevResult", err.Error())
	}
	if c.AmbientEnabled {
		return nil, types.NewError(types.ErrUnsupportedField, "ambient_enabled", "pods without sidecars are not supported")
	}
	c.RunDir = cmp.Or(c.RunDir, DefaultRunDir)
	return c, nil
}

// kubeconfig is the path of the file.
func (c *Config) kubeconfig() string {
	if c.Kubernetes != nil && c.Kubernetes.Kubeconfig != "" {
		return c.Kubernetes.Kubeconfig
	}
	return filepath.Join(c.RunDir, KubeconfigName)
}

func (c *Config) excludes(namespace string) bool {
	return slices.Contains(c.ExcludeNamespaces, namespace) ||
		c.Kubernetes != nil && slices.Contains(c.Kubernetes.ExcludeNamespaces, namespace)
}

// arguments are what container runtimes of Kubernetes say of a pod (CNI_ARGS). The field names are the runtimes'.
type arguments struct {
	types.CommonArgs
	K8S_POD_NAME      types.UnmarshallableString //nolint:revive // read by reflection
	K8S_POD_NAMESPACE types.UnmarshallableString //nolint:revive // read by reflection
	K8S_POD_UID       types.UnmarshallableString //nolint:revive // read by reflection
}

// podName is who a call is about; the zero value if it is about no pod of Kubernetes.
type podName struct{ Namespace, Name, UID string }

func (n podName) String() string { return n.Namespace + "/" + n.Name }

func podOf(args *skel.CmdArgs) (podName, error) {
	// Runtimes add arguments as they like, whether or not they say IgnoreUnknown.
	a := arguments{CommonArgs: types.CommonArgs{IgnoreUnknown: true}}
	if err := types.LoadArgs(args.Args, &a); err != nil {
		return podName{}, types.NewError(types.ErrInvalidEnvironmentVariables, "reading CNI_ARGS", err.Error())
	}
	n := podName{Namespace: string(a.K8S_POD_NAMESPACE), Name: string(a.K8S_POD_NAME), UID: string(a.K8S_POD_UID)}
	if n.Namespace == "" || n.Name == "" {
		return podName{}, nil
	}
	return n, nil
}

// Level is the log level that the configuration asks for, "" for none.
func (c *Config) Level() string { return cmp.Or(c.PluginLogLevel, c.LogLevel) }

// notServed says why a call cannot be answered now: a code of the specification's, what was being done, and why it failed.
func notServed(code uint, doing string, err error) error {
	return types.NewError(code, doing, fmt.Sprint(err))
}
