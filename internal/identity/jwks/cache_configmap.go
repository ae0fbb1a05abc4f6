package jwks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// ConfigMapCache is a KeyCache in a ConfigMap that replicas share, in the control plane's
// namespace. Writers of that namespace can change the mesh configuration anyway, so the cache
// grants them nothing. It holds public keys only.
type ConfigMapCache struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

// configMapKey is the data key of the ConfigMap.
const configMapKey = "keys.json"

var _ KeyCache = ConfigMapCache{}

// String returns the namespace and name for logs.
func (c ConfigMapCache) String() string { return "ConfigMap " + c.Namespace + "/" + c.Name }

// Load returns the data of the ConfigMap, or nil if there is none.
func (c ConfigMapCache) Load(ctx context.Context) ([]byte, error) {
	text, _, err := c.readData(ctx)
	return text, err
}

// readData returns the cached data and the resource version of the ConfigMap, nil and "" if it does
// not exist.
func (c ConfigMapCache) readData(ctx context.Context) ([]byte, string, error) {
	o, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", c, err)
	}
	return []byte(o.Data[configMapKey]), o.ResourceVersion, nil
}

// Update replaces the data by the result of change on the current data, and creates the ConfigMap
// if it does not exist. It writes nothing if the data are equal. It returns an error on a conflict.
// Other data of the ConfigMap stay.
func (c ConfigMapCache) Update(ctx context.Context, change func([]byte) []byte) error {
	old, version, err := c.readData(ctx)
	if err != nil {
		return err
	}
	text := change(old)
	if version != "" && bytes.Equal(text, old) {
		return nil
	}
	data := map[string]string{configMapKey: string(text)}
	maps := c.Client.CoreV1().ConfigMaps(c.Namespace)
	if version == "" {
		_, err = maps.Create(
			ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Data: data},
			metav1.CreateOptions{},
		)
	} else {
		var patch []byte
		patch, err = json.Marshal(
			map[string]any{"metadata": map[string]string{"resourceVersion": version}, "data": data},
		)
		if err == nil { // a resource version that is not the latest is a conflict
			_, err = maps.Patch(ctx, c.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", c, err)
	}
	return nil
}
