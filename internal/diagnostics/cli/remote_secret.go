package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// remoteSecretFlags are the flags of create-remote-secret.
type remoteSecretFlags struct {
	name, account, server string
	duration              time.Duration
}

// createRemoteSecret returns the command that prints a Secret, as YAML, by which a control plane
// reads another cluster. Without --token-duration it may create a Secret with a token in the
// cluster (readerToken).
func (a *pageClient) createRemoteSecret() *cobra.Command {
	var f remoteSecretFlags
	c := &cobra.Command{
		Use: "create-remote-secret --name ID", Args: cobra.NoArgs,
		Short: "Print a Secret by which a control plane reads the services of a cluster",
		Long: "create-remote-secret prints a Secret with a kubeconfig of the cluster of --kubeconfig and --context, for the cluster of the\n" +
			"control plane that is to read it. The kubeconfig has a token of a service account (of the chart base). Without\n" +
			"--token-duration the token does not expire: a Secret of type kubernetes.io/service-account-token is created for it, if there\n" +
			"is none.",
		Example: "  pilotctl create-remote-secret --context west --name west | kubectl --context east apply -f -",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withCluster(c, func(ctx context.Context, client *kube.Client) error {
				secret, err := a.newRemoteSecret(ctx, client, f)
				if err != nil {
					return err
				}
				text, err := yaml.Marshal(secret)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "# This Secret has a credential of cluster %s.\n%s", f.name, text)
				return err
			})
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.name, "name", "", "ID of the cluster, unique in the mesh")
	fs.StringVar(&f.account, "service-account", "istio-reader-service-account",
		"service account in --istioNamespace whose token is used")
	fs.StringVar(&f.server, "server", "",
		"address of the API server as the control plane reaches it (default: that of the kubeconfig)")
	fs.DurationVar(&f.duration, "token-duration", 0, "lifetime of the token; 0 for one that does not expire")
	return c
}

// newRemoteSecret returns the Secret with a kubeconfig for the cluster, which it does not create.
// The address is f.server, or else that of the kubeconfig. It returns an error if --name is
// missing, or the CA (apiServerCA) or the token (readerToken) cannot be read. It may create a
// Secret with a token in the cluster (readerToken).
func (a *pageClient) newRemoteSecret(ctx context.Context, client *kube.Client, f remoteSecretFlags) (*corev1.Secret,
	error) {
	if f.name == "" {
		return nil, errors.New("--name is required: the ID of the cluster, unique in the mesh")
	}
	ca, err := apiServerCA(ctx, client)
	if err != nil {
		return nil, err
	}
	token, err := a.readerToken(ctx, client, f)
	if err != nil {
		return nil, err
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[f.name] = &clientcmdapi.Cluster{Server: cmp.Or(f.server, client.Config.Host),
		CertificateAuthorityData: ca}
	kubeconfig.AuthInfos[f.name] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Contexts[f.name] = &clientcmdapi.Context{Cluster: f.name, AuthInfo: f.name}
	kubeconfig.CurrentContext = f.name
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "istio-remote-secret-" + f.name, Namespace: a.Namespace,
			Labels:      map[string]string{"istio/multiCluster": "true"},
			Annotations: map[string]string{"networking.istio.io/cluster": f.name},
		},
		StringData: map[string]string{f.name: string(text)},
	}, nil
}

// apiServerCA returns the CA certificates that verify the API server: those of the kubeconfig, or
// else the ConfigMap kube-root-ca.crt in the namespace default. A ConfigMap without certificates
// yields empty text.
func apiServerCA(ctx context.Context, client *kube.Client) ([]byte, error) {
	switch {
	case len(client.Config.CAData) > 0:
		return client.Config.CAData, nil
	case client.Config.CAFile != "":
		return os.ReadFile(client.Config.CAFile)
	}
	m, err := client.Kubernetes.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt",
		metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the CA of the API server, which the kubeconfig does not have: %w", err)
	}
	return []byte(m.Data["ca.crt"]), nil
}

// readerToken returns a token of the service account. If f.duration is set, it requests a new token
// with that lifetime. Otherwise the token does not expire: it creates a Secret, unless it exists,
// and waits up to timeout until the cluster fills it. A missing service account is an error.
func (a *pageClient) readerToken(ctx context.Context, client *kube.Client, f remoteSecretFlags) (string, error) {
	core := client.Kubernetes.CoreV1()
	if _, err := core.ServiceAccounts(a.Namespace).Get(ctx, f.account, metav1.GetOptions{}); err != nil {
		return "", fmt.Errorf("service account %s/%s (of the chart base): %w", a.Namespace, f.account, err)
	}
	if f.duration > 0 {
		seconds := int64(f.duration.Seconds())
		r, err := core.ServiceAccounts(a.Namespace).CreateToken(ctx, f.account, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("request a token: %w", err)
		}
		return r.Status.Token, nil
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:        f.account + "-istio-remote-secret-token",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: f.account},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if _, err := core.Secrets(a.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create Secret %s/%s: %w", a.Namespace, s.Name, err)
	}
	token := ""
	err := wait.PollUntilContextTimeout(ctx, tokenInterval, timeout, true, func(ctx context.Context) (bool, error) {
		filled, err := core.Secrets(a.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		token = string(filled.Data[corev1.ServiceAccountTokenKey])
		return token != "", nil
	})
	if err != nil {
		return "", fmt.Errorf("the cluster does not write a token to Secret %s/%s; --token-duration requests one: %w",
			a.Namespace, s.Name, err)
	}
	return token, nil
}

// tokenInterval is the time between two reads of a Secret that waits for its token.
const tokenInterval = 200 * time.Millisecond
