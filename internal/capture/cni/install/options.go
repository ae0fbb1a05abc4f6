package install

import (
	"errors"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
)

// Options configure an Installer. Paths are as mounted in the installer's pod. The names of flags
// are Istio's.
type Options struct {
	// Program is the file to install as the plugin.
	Program string
	// BinDirs are the node's plugin directories (CNI_BIN_TARGET_DIR, default /host/opt/cni/bin).
	BinDirs []string
	// NetDir is the directory of the node's network configurations (--mounted-cni-net-dir).
	NetDir string
	// ConfName is the file in NetDir to which the plugin is added (--cni-conf-name). If empty, it
	// is the first one, which runtimes use.
	ConfName string
	// Standalone writes a separate configuration for the plugin (--chained-cni-plugin=false), for
	// Multus.
	Standalone bool
	// ConfMode is the file mode of the separate configuration. An existing configuration keeps its
	// mode (--cni-conf-group-read).
	ConfMode os.FileMode
	// RunDir is the directory of the kubeconfig (--cni-agent-run-dir). It has the same path on the
	// node.
	RunDir string
	// KubeconfigMode is the file mode of the kubeconfig (--kubeconfig-mode).
	KubeconfigMode os.FileMode
	// Server is the API server's URL. ServiceAccount is the directory with the pod's token and
	// ca.crt.
	Server         string
	ServiceAccount string
	// CAFile is the API server's CA (--kube-ca-file). If empty, it is the CA file of the service
	// account.
	CAFile string
	// AcceptAnyCertificate lets the plugin accept any certificate of the API server (default false;
	// --skip-tls-verify, SKIP_TLS_VERIFY).
	AcceptAnyCertificate bool
	// Entry is the plugin's configuration.
	Entry cni.Config
	// Metrics is where the metrics are registered. If nil, they are not.
	Metrics prometheus.Registerer
}

// DefaultOptions returns Options with Istio's default directories and file modes. All other fields
// are zero.
func DefaultOptions() Options {
	return Options{
		BinDirs: []string{"/host/opt/cni/bin"}, NetDir: "/host/etc/cni/net.d", RunDir: cni.DefaultRunDir,
		KubeconfigMode: 0o600, ConfMode: 0o600,
		ServiceAccount: "/var/run/secrets/kubernetes.io/serviceaccount",
	}
}

// Validate returns an error for the first missing or unsupported option, or nil. Program, Server,
// NetDir, BinDirs and RunDir are required, and ambient mode is not supported.
func (o Options) Validate() error {
	switch {
	case o.Program == "":
		return errors.New("the program to install is not set")
	case o.Server == "":
		return errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: " +
			"not running in a Kubernetes pod")
	case o.NetDir == "" || len(o.BinDirs) == 0 || o.RunDir == "":
		return errors.New("--mounted-cni-net-dir, CNI_BIN_TARGET_DIR and --cni-agent-run-dir must be set")
	case o.Entry.AmbientEnabled:
		return errors.New("--ambient-enabled: ambient mode is not supported")
	}
	return nil
}
