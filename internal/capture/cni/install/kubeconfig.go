package install

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
)

// kubeconfig returns a kubeconfig of the installer's own service account with its current token. It
// cannot refer to the token's file, because the plugin runs outside of the pod. The API server's CA
// is in CAFile, by default ca.crt of the service account. It returns an error if the token cannot
// be read, or the CA unless AcceptAnyCertificate is set.
func (o Options) kubeconfig() ([]byte, error) {
	cluster := &clientcmdapi.Cluster{Server: o.Server, InsecureSkipTLSVerify: o.AcceptAnyCertificate}
	if !o.AcceptAnyCertificate {
		file := o.CAFile
		if file == "" {
			file = filepath.Join(o.ServiceAccount, "ca.crt")
		}
		var err error
		if cluster.CertificateAuthorityData, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read the API server's CA: %w", err)
		}
	}
	token, err := os.ReadFile(filepath.Join(o.ServiceAccount, "token"))
	if err != nil {
		return nil, fmt.Errorf("read the service account's token: %w", err)
	}
	const context, name = "istio-cni-context", "local"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{cni.Name: {Token: string(token)}},
		Contexts:       map[string]*clientcmdapi.Context{context: {Cluster: name, AuthInfo: cni.Name}},
		CurrentContext: context,
	})
}

// kubeconfigPath returns the path of the plugin's kubeconfig, in RunDir.
func (o Options) kubeconfigPath() string { return filepath.Join(o.RunDir, cni.KubeconfigName) }
