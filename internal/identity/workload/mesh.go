package workload

import (
	"context"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Mesh is what is asked of the mesh that a workload joins.
type Mesh interface {
	// Config gives the mesh configuration, without defaults.
	Config(ctx context.Context) (*meshconfig.MeshConfig, error)
	// Roots gives the certificates that workloads of a namespace trust, in PEM.
	Roots(ctx context.Context, namespace string) ([]byte, error)
	// Token signs a token for a service account.
	Token(ctx context.Context, namespace, serviceAccount string, lifetime time.Duration) (string, error)
	// Cluster gives the name of the cluster, "" if that is not known, and Ingress the address at which workloads outside reach the
	// control plane, "" as well.
	Cluster(ctx context.Context) (string, error)
	Ingress(ctx context.Context, service string) (string, error)
}
