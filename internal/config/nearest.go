package config

import "strings"

// nearest is the candidate most like word, or "" when none is like it.
func nearest(word string, candidates []string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	most := max(2, len(word)/3)
	if len(word) < 4 {
		most = 1
	}
	best, bestDistance := "", most+1
	for _, candidate := range candidates {
		if d := distance(word, strings.ToLower(candidate)); d < bestDistance && d < len(candidate) {
			best, bestDistance = candidate, d
		}
	}
	for _, candidate := range candidates {
		if best == "" && len(word) >= 4 && strings.HasPrefix(candidate, word) {
			best = candidate
		}
	}
	return best
}

// distance is Levenshtein's: how many letters must be added, dropped or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
