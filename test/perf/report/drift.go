package report

// Drift returns by how much a quantity that was sampled at a steady interval grew over the second
// half of the samples, in percent of its mean there: the slope of the least-squares line times the
// length of the half. The first half is left out because caches and pools fill in it. It returns 0
// if there are fewer than four samples or the mean is 0.
func Drift(samples []float64) float64 {
	half := samples[len(samples)/2:]
	n := float64(len(half))
	if len(samples) < 4 {
		return 0
	}
	var sumX, sumY, sumXX, sumXY float64
	for i, y := range half {
		x := float64(i)
		sumX, sumY, sumXX, sumXY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	if sumY == 0 {
		return 0
	}
	slope := (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
	return slope * (n - 1) / (sumY / n) * 100
}
