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

// ConfigMap is a Memory that replicas share, in the control plane's own namespace: whoever may write there may write the mesh
// configuration too, and so has no more by it. It holds public keys only.
type ConfigMap struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

// configMapKey is under which data the keys are.
const configMapKey = "keys.json"

var _ Memory = ConfigMap{}

// String names the ConfigMap.
func (c ConfigMap) String() string { return "ConfigMap " + c.Namespace + "/" + c.Name }

// Load reads the ConfigMap.
func (c ConfigMap) Load(ctx context.Context) ([]byte, error) {
	text, _, err := c.get(ctx)
	return text, err
}

// get gives what is kept, and its version, "" if there is no ConfigMap.
func (c ConfigMap) get(ctx context.Context) ([]byte, string, error) {
	o, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", c, err)
	}
	return []byte(o.Data[configMapKey]), o.ResourceVersion, nil
}

// Change makes the ConfigMap, or patches the version that it has read.
func (c ConfigMap) Change(ctx context.Context, change func([]byte) []byte) error {
	old, version, err := c.get(ctx)
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
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Data: data}, metav1.CreateOptions{})
	} else {
		var patch []byte
		patch, err = json.Marshal(map[string]any{"metadata": map[string]string{"resourceVersion": version}, "data": data})
		if err == nil { // a version that is not the newest any more is a conflict
			_, err = maps.Patch(ctx, c.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", c, err)
	}
	return nil
}
