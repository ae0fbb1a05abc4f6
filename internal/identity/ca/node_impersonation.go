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

// NodeImpersonation lets proxies that serve a whole node have certificates for the service accounts
// of the pods on that node, and for no others.
type NodeImpersonation struct {
	// Accounts are the service accounts of such proxies, as NAMESPACE/NAME
	// (CA_TRUSTED_NODE_ACCOUNTS).
	Accounts []string
	// ClusterClient returns the client for a cluster's API server, or nil if the cluster is
	// unknown.
	ClusterClient func(cluster string) kubernetes.Interface
}

var _ Impersonation = NodeImpersonation{}

// Authorize returns nil if the caller is one of Accounts and a pod of the caller's node, neither
// succeeded nor failed, uses account. It reads the caller's pod and the node's pods from the API
// server of the caller's cluster. It returns an error if that is unknown or a request fails. It
// also refuses tokens that are not bound to a pod, and pods that were replaced or are not
// scheduled.
func (n NodeImpersonation) Authorize(ctx context.Context, caller authenticate.Caller, account spiffe.Account) error {
	callerAccount, ok := caller.ID.Account()
	if !ok || !slices.Contains(n.Accounts, callerAccount.Namespace+"/"+callerAccount.Name) {
		return fmt.Errorf("%s is not among CA_TRUSTED_NODE_ACCOUNTS", caller.ID)
	}
	if caller.Pod.Name == "" || caller.Pod.UID == "" {
		return errors.New("the caller's token is not bound to a pod, so its node is unknown")
	}
	client := n.ClusterClient(caller.Cluster)
	if client == nil {
		return fmt.Errorf("cluster %q is unknown", caller.Cluster)
	}
	pod, err := client.CoreV1().Pods(caller.Pod.Namespace).Get(ctx, caller.Pod.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("read the caller's pod: %w", err)
	case string(pod.UID) != caller.Pod.UID, pod.Spec.ServiceAccountName != callerAccount.Name, pod.Spec.NodeName == "":
		return errors.New("the caller's pod was replaced or is not scheduled on a node")
	}
	pods, err := client.CoreV1().Pods(account.Namespace).List(
		ctx,
		metav1.ListOptions{FieldSelector: fields.AndSelectors(
			fields.OneTermEqualSelector("spec.nodeName", pod.Spec.NodeName),
			fields.OneTermEqualSelector("spec.serviceAccountName", account.Name),
		).String()},
	)
	if err != nil {
		return fmt.Errorf("list the pods of the caller's node: %w", err)
	}
	if !slices.ContainsFunc(pods.Items, isRunning) {
		return fmt.Errorf("no pod on %s runs as %s/%s", pod.Spec.NodeName, account.Namespace, account.Name)
	}
	return nil
}

// isRunning reports whether the pod has neither succeeded nor failed.
func isRunning(p corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}
