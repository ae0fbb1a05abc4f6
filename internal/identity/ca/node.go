package ca

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Nodes lets proxies of whole nodes have certificates for service accounts that a pod of their node runs as, and for no others.
type Nodes struct {
	// Accounts are those of such proxies, as NAMESPACE/NAME. CA_TRUSTED_NODE_ACCOUNTS.
	Accounts []string
	// Client gives the API server of a cluster, nil for one that is not known.
	Client func(cluster string) kubernetes.Interface
}

var _ Impersonation = Nodes{}

// Allow asks the API server which node the caller's pod is on, and whether a pod of the account is there too.
func (n Nodes) Allow(ctx context.Context, caller authenticate.Caller, account spiffe.Account) error {
	own, ok := caller.ID.Account()
	if !ok || !slices.Contains(n.Accounts, own.Namespace+"/"+own.Name) {
		return fmt.Errorf("%s is not among CA_TRUSTED_NODE_ACCOUNTS", caller.ID)
	}
	if caller.Pod.Name == "" || caller.Pod.UID == "" {
		return errors.New("the caller's token is not bound to a pod, so its node is not known")
	}
	client := n.Client(caller.Cluster)
	if client == nil {
		return fmt.Errorf("the cluster %q is not known", caller.Cluster)
	}
	pod, err := client.CoreV1().Pods(caller.Pod.Namespace).Get(ctx, caller.Pod.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("read the caller's pod: %w", err)
	case string(pod.UID) != caller.Pod.UID || pod.Spec.ServiceAccountName != own.Name || pod.Spec.NodeName == "":
		return errors.New("the caller's pod is another one now, or on no node")
	}
	there, err := client.CoreV1().Pods(account.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", pod.Spec.NodeName), fields.OneTermEqualSelector("spec.serviceAccountName", account.Name),
	).String()})
	if err != nil {
		return fmt.Errorf("list the pods of the caller's node: %w", err)
	}
	if !slices.ContainsFunc(there.Items, running) {
		return fmt.Errorf("no pod on %s runs as %s/%s", pod.Spec.NodeName, account.Namespace, account.Name)
	}
	return nil
}

func running(p corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}
