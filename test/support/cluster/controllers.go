package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// startControllers starts kube-controller-manager and does not wait for it.
func (c *Cluster) startControllers(ctx context.Context) error {
	path, err := c.programs.Path(ctx, "kube-controller-manager")
	if err != nil {
		return err
	}
	k := c.keys
	kubeconfig := c.filePath("kube-controller-manager.kubeconfig")
	if err := WriteKubeconfig(
		kubeconfig,
		k.userConfig(c.innerAddress(), "system:kube-controller-manager"),
	); err != nil {
		return err
	}
	c.controllers, err = startProcess(c.thread, "kube-controller-manager", path, c.filePath("logs"),
		"--kubeconfig="+kubeconfig, "--use-service-account-credentials",
		"--service-account-private-key-file="+k.filePath("service-account.key"), "--root-ca-file="+k.filePath("ca.crt"),
		"--cluster-signing-cert-file="+k.filePath("ca.crt"), "--cluster-signing-key-file="+k.filePath("ca.key"),
		"--leader-elect=false", "--secure-port=0", "--allocate-node-cidrs=false", "--concurrent-deployment-syncs=10",
		// A test may stop the only node: no controller may taint it or assign addresses.
		"--controllers=*,-node-lifecycle-controller,-node-ipam-controller,-cloud-node-lifecycle-controller,"+
			"-service-lb-controller,-node-route-controller,-taint-eviction-controller")
	return err
}

// awaitControllers waits until they have created the objects of a new namespace.
func (c *Cluster) awaitControllers(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	return awaitCondition(
		ctx,
		"the controllers",
		[]*process{c.controllers, c.apiServer},
		func(ctx context.Context) error {
			if _, err := client.CoreV1().
				ServiceAccounts(metav1.NamespaceDefault).
				Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
			_, err := client.CoreV1().
				ConfigMaps(metav1.NamespaceDefault).
				Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		},
	)
}

// StopControllers kills the controller manager.
func (c *Cluster) StopControllers() { c.controllers.killNow() }
