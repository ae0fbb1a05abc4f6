package story

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func playScale(ctx context.Context, s *Stage) error {
	for _, replicas := range []string{"3", "1"} {
		if _, err := s.runKubectl(ctx, "scale", "deployment/reviews-v1", "--replicas="+replicas); err != nil {
			return err
		}
		if err := s.awaitDeployments(ctx, "app=reviews"); err != nil {
			return err
		}
		if replicas == "1" {
			return nil
		}
		if err := s.expectAnswersOf(ctx, 3); err != nil {
			return err
		}
	}
	return nil
}

// expectAnswersOf waits until that many Pods of reviews v1 answer.
func (s *Stage) expectAnswersOf(ctx context.Context, pods int) error {
	seen := map[string]bool{}
	err := awaitCondition(ctx, "all replicas", func(ctx context.Context) error {
		_, body, err := s.getPath(ctx, reviewsPath)
		if err != nil {
			return err
		}
		name := podName(body)
		if strings.HasPrefix(name, "reviews-v1-") {
			seen[name] = true
		}
		if len(seen) < pods {
			return fmt.Errorf("there answer %d", len(seen))
		}
		return nil
	})
	s.reportVerdict(err == nil, "pods of reviews v1 that answer", fmt.Sprint(pods), fmt.Sprint(len(seen)))
	return nil
}

func playRoll(ctx context.Context, s *Stage) error {
	surge := []byte(`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"100%","maxUnavailable":0}}}}`)
	deployments := s.client.AppsV1().Deployments(metav1.NamespaceDefault)
	for _, name := range []string{"productpage-v1", "reviews-v1"} {
		if _, err := deployments.Patch(
			ctx,
			name,
			types.StrategicMergePatchType,
			surge,
			metav1.PatchOptions{},
		); err != nil {
			return err
		}
		if _, err := s.runKubectl(ctx, "rollout", "restart", "deployment/"+name); err != nil {
			return err
		}
	}
	return s.awaitDeployments(ctx, "app in (productpage, reviews)")
}

func playRestart(ctx context.Context, s *Stage) error {
	if _, err := s.runKubectl(
		ctx,
		"-n",
		"istio-system",
		"delete",
		"pod",
		"-l",
		"app=istiod",
		"--wait=true",
	); err != nil {
		return err
	}
	_, err := s.runKubectl(ctx, "-n", "istio-system", "rollout", "status", "deployment/istiod", "--timeout=60s")
	return err
}

// outage is how long the API server is away.
const outage = 3 * time.Second

func playOutage(ctx context.Context, s *Stage) error {
	s.cluster.StopAPIServer()
	if err := sleepFor(ctx, outage); err != nil {
		return err
	}
	if err := s.cluster.StartAPIServer(ctx); err != nil {
		return err
	}
	// After it, rules work as before.
	if err := s.applyFile(ctx, "networking/virtual-service-reviews-v3.yaml", true); err != nil {
		return err
	}
	return awaitCondition(ctx, "v3", func(ctx context.Context) error {
		seen, err := s.countVersions(ctx, 10)
		if err == nil && seen["reviews-v3"] != 10 {
			err = fmt.Errorf("there answer %v", seen)
		}
		return err
	})
}
