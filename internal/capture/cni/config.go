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
	// Name is the plugin's name, in configurations and as file name.
	Name = "istio-cni"
	// KubeconfigName is the file in Config.RunDir with which the plugin connects to the API server.
	KubeconfigName = "istio-cni-kubeconfig"
	// DefaultRunDir is the default directory for files that the installer writes for the plugin.
	DefaultRunDir = "/var/run/istio-cni"
	// agentPrefix is the name prefix of the installer's own pods.
	agentPrefix = "istio-cni-node-"
)

// Config is the plugin's entry in a network configuration. The keys are Istio's. Kubernetes and
// LogLevel are keys of its earlier releases.
type Config struct {
	types.PluginConf

	// PluginLogLevel is debug, info, warn or error.
	PluginLogLevel string `json:"plugin_log_level,omitempty"`
	LogLevel       string `json:"log_level,omitempty"`
	// RunDir is the directory of the kubeconfig and the log.
	RunDir string `json:"cni_agent_run_dir,omitempty"`
	// ExcludeNamespaces are namespaces whose pods are not captured.
	ExcludeNamespaces []string `json:"exclude_namespaces,omitempty"`
	// PodNamespace is the installer's namespace. Its own pods must start without the plugin, which
	// depends on them.
	PodNamespace string `json:"pod_namespace,omitempty"`
	// NativeNftables applies rules as nftables over netlink instead of by iptables.
	NativeNftables bool `json:"native_nftables,omitempty"`
	// AmbientEnabled is not supported: ParseConfig rejects it.
	AmbientEnabled bool        `json:"ambient_enabled,omitempty"`
	Kubernetes     *Kubernetes `json:"kubernetes,omitempty"`
}

// Kubernetes holds keys in the layout of earlier releases of Istio's plugin.
type Kubernetes struct {
	Kubeconfig        string   `json:"kubeconfig,omitempty"`
	ExcludeNamespaces []string `json:"exclude_namespaces,omitempty"`
}

// ParseConfig parses a network configuration, including the result of the previous plugin. RunDir
// gets its default if it is empty. It returns an error of the CNI specification for invalid JSON,
// an invalid result and ambient mode.
func ParseConfig(text []byte) (*Config, error) {
	c := new(Config)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "parsing the network configuration", err.Error())
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "parsing prevResult", err.Error())
	}
	if c.AmbientEnabled {
		return nil, types.NewError(types.ErrUnsupportedField, "ambient_enabled", "ambient mode is not supported")
	}
	c.RunDir = cmp.Or(c.RunDir, DefaultRunDir)
	return c, nil
}

// kubeconfigPath returns the configured path of the kubeconfig, by default the file KubeconfigName
// in RunDir.
func (c *Config) kubeconfigPath() string {
	if c.Kubernetes != nil && c.Kubernetes.Kubeconfig != "" {
		return c.Kubernetes.Kubeconfig
	}
	return filepath.Join(c.RunDir, KubeconfigName)
}

// excludesNamespace reports whether pods of a namespace are not captured. Both lists of the
// configuration count.
func (c *Config) excludesNamespace(namespace string) bool {
	return slices.Contains(c.ExcludeNamespaces, namespace) ||
		c.Kubernetes != nil && slices.Contains(c.Kubernetes.ExcludeNamespaces, namespace)
}

// cniArgs holds the pod's identity that Kubernetes container runtimes pass in CNI_ARGS. The field
// names are theirs.
type cniArgs struct {
	types.CommonArgs
	K8S_POD_NAME      types.UnmarshallableString //nolint:revive // read by reflection
	K8S_POD_NAMESPACE types.UnmarshallableString //nolint:revive // read by reflection
	K8S_POD_UID       types.UnmarshallableString //nolint:revive // read by reflection
}

// podName identifies the pod of a call. It is zero if the call is not for a Kubernetes pod.
type podName struct{ Namespace, Name, UID string }

// String returns the namespace and name, separated by a slash.
func (n podName) String() string { return n.Namespace + "/" + n.Name }

// parsePodName returns the pod in CNI_ARGS, or the zero podName if its name or namespace is
// missing. Unknown arguments are ignored. It returns an error if CNI_ARGS cannot be parsed.
func parsePodName(args *skel.CmdArgs) (podName, error) {
	// Runtimes add unknown arguments even without IgnoreUnknown.
	a := cniArgs{CommonArgs: types.CommonArgs{IgnoreUnknown: true}}
	if err := types.LoadArgs(args.Args, &a); err != nil {
		return podName{}, types.NewError(types.ErrInvalidEnvironmentVariables, "parsing CNI_ARGS", err.Error())
	}
	n := podName{Namespace: string(a.K8S_POD_NAMESPACE), Name: string(a.K8S_POD_NAME), UID: string(a.K8S_POD_UID)}
	if n.Namespace == "" || n.Name == "" {
		return podName{}, nil
	}
	return n, nil
}

// LogLevelName returns the configured log level, "" if there is none. PluginLogLevel comes first.
func (c *Config) LogLevelName() string { return cmp.Or(c.PluginLogLevel, c.LogLevel) }

// newError returns an error of the CNI specification: a code, the operation that failed, and the
// cause.
func newError(code uint, doing string, err error) error {
	return types.NewError(code, doing, fmt.Sprint(err))
}
