package install

import (
	"errors"
	"os"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
)

// Options say where things are on the node, as the installer's pod has it mounted. The names of the flags are Istio's.
type Options struct {
	// Program is what is put onto the node as the plugin.
	Program string
	// BinDirs are the node's directories of plugins (CNI_BIN_TARGET_DIR): /host/opt/cni/bin.
	BinDirs []string
	// NetDir has the node's network configurations (--mounted-cni-net-dir).
	NetDir string
	// ConfName is the file in NetDir to add the plugin to (--cni-conf-name); empty: the first one, which is the one in use.
	ConfName string
	// Alone writes a configuration of the plugin's own (--chained-cni-plugin=false), for Multus.
	Alone bool
	// RunDir is where the kubeconfig goes (--cni-agent-run-dir); it is the same path on the node.
	RunDir string
	// KubeconfigMode is the kubeconfig's (--kubeconfig-mode).
	KubeconfigMode os.FileMode
	// Server is the API server's URL, ServiceAccount the directory with the pod's token and ca.crt.
	Server         string
	ServiceAccount string
	// CAFile is the API server's CA (--kube-ca-file); empty: that of the service account.
	CAFile string
	// SkipTLSVerify trusts any API server (--skip-tls-verify).
	SkipTLSVerify bool
	// Entry is what the plugin is told.
	Entry cni.Config
}

// DefaultOptions returns Istio's defaults.
func DefaultOptions() Options {
	return Options{
		BinDirs: []string{"/host/opt/cni/bin"}, NetDir: "/host/etc/cni/net.d", RunDir: cni.DefaultRunDir, KubeconfigMode: 0o600,
		ServiceAccount: "/var/run/secrets/kubernetes.io/serviceaccount",
	}
}

// Validate names what is missing.
func (o Options) Validate() error {
	switch {
	case o.Program == "":
		return errors.New("it is not known which program to install")
	case o.Server == "":
		return errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is not a pod of Kubernetes")
	case o.NetDir == "" || len(o.BinDirs) == 0 || o.RunDir == "":
		return errors.New("--mounted-cni-net-dir, CNI_BIN_TARGET_DIR and --cni-agent-run-dir must be set")
	case o.Entry.AmbientEnabled:
		return errors.New("--ambient-enabled: pods without sidecars are not supported")
	}
	return nil
}
