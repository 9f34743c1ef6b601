package preemption

import (
	"cmp"
	"math"
	"slices"
)

// Which jobs have to leave a node so that enough room is left behind is the minimum knapsack problem, with one
// knapsack per resource that is short. A selection solves it by branch and bound, which finds the best answer there
// is. It stops after a number of steps with the best answer found until then, which is never worse than what its two
// greedy beginnings say: at most 2R times the least loss, where R resources are short (byDensity).

const (
	// maxVisits is how many partial choices are looked at on a node with up to exactUpTo jobs, some 10 ms of work. With 16
	// jobs no more are possible; with 20 at random no more than 2,000 were seen to be needed.
	maxVisits = 1 << 17
	exactUpTo = 20
	// maxVisitsBeyond is the same with more jobs, where one look takes longer: some milliseconds of work.
	maxVisitsBeyond = 1 << 12
)

// maxTries is how many choices that leave enough room are shown to the other filters, where these have a say.
const maxTries = 64

// Criteria by which sets of jobs are compared; a later one only decides between equals.
const (
	protected   = iota // 1 where a non-preemptible job is newly broken, however many there are
	atRisk             // CPU-seconds that jobs newly broken lose, siblings elsewhere included
	newlyBroken        // jobs
	removals           // pods that are not on their way out already
	criteria
)

// price is what the end of jobs costs, by criterion.
type price [criteria]float64

func priceOf(share *share) (p price) {
	p[removals] = float64(share.staying)
	if share.job.lost {
		return p
	}
	if share.job.class == nonPreemptible {
		p[protected] = 1
	}
	p[atRisk], p[newlyBroken] = share.job.seconds, 1
	return p
}

func (p price) plus(other price) price {
	for criterion, figure := range other {
		p[criterion] += figure
	}
	p[protected] = min(1, p[protected])
	return p
}

// compare takes figures for equal that were only added up in another order.
func (p price) compare(other price) int {
	for criterion, figure := range p {
		if difference := compareFigures(figure, other[criterion]); difference != 0 {
			return difference
		}
	}
	return 0
}

func compareFigures(a, b float64) int {
	if math.Abs(a-b) <= 1e-6+1e-9*b {
		return 0
	}
	return cmp.Compare(a, b)
}

// selection is the search for the cheapest jobs that end a shortage. The jobs are numbered by importance, the most
// important first.
type selection struct {
	prices  []price
	missing []int64
	// amounts is what jobs leave behind, by resource and job.
	amounts [][]int64
	// orders are the jobs by price per amount, cheapest first, by criterion and resource; made when needed.
	orders [criteria][][]int

	// must are jobs that have to go for another reason than resources; try asks whether a choice will do for those
	// reasons too. nil: there are none.
	must []bool
	try  func(broken []bool) bool

	left          []int64
	broken, best  []bool
	worth         price // of the best
	visits, tries int
	// inOrder: of equals the best is the one that keeps the most important jobs, so another has to be cheaper.
	inOrder bool
}

// newSelection sets the problem for jobs in the order of their importance.
func newSelection(needed amounts, shares []*share) *selection {
	s := &selection{
		prices: make([]price, len(shares)), missing: make([]int64, len(needed)), amounts: make([][]int64, len(needed)),
	}
	for i, share := range shares {
		s.prices[i] = priceOf(share)
	}
	for r, lacking := range needed {
		s.missing[r], s.amounts[r] = lacking.quantity, make([]int64, len(shares))
		for i, share := range shares {
			s.amounts[r][i] = amountOfAll(share.pods, lacking.name)
		}
	}
	return s
}

// cheapest returns the jobs that end the shortage at the least price, and of several such sets the one that keeps the
// most important jobs. All of them together have to be enough.
func (s *selection) cheapest() []bool {
	s.must = make([]bool, len(s.prices))
	s.start(s.byImportance(), true)
	if dense := s.byDensity(); s.priceOf(dense).compare(s.worth) < 0 {
		s.start(dense, false)
	}
	s.search(0, price{})
	return s.best
}

// cheapestOf is cheapest where other things than resources count as well: `must` has the jobs that have to go in any
// case, `try` tells whether a choice will do, and `best` is one that will.
func (s *selection) cheapestOf(best, must []bool, try func(broken []bool) bool) []bool {
	s.must, s.try = must, try
	s.visits, s.tries = 0, 0
	s.start(best, true)
	s.search(0, price{})
	return s.best
}

func (s *selection) start(best []bool, inOrder bool) {
	s.best, s.worth, s.inOrder = best, s.priceOf(best), inOrder
	s.left, s.broken = slices.Clone(s.missing), make([]bool, len(s.prices))
}

func (s *selection) priceOf(broken []bool) (p price) {
	for i, gone := range broken {
		if gone {
			p = p.plus(s.prices[i])
		}
	}
	return p
}

// --- branch and bound ---

// search decides about the jobs from `next` on: keeping one comes first, so that of equal choices the one that keeps
// the most important jobs is found first.
func (s *selection) search(next int, paid price) {
	if s.visits >= s.limit() || s.tries >= maxTries {
		return
	}
	s.visits++
	if s.covered(s.left) && s.settle(next, paid) {
		return
	}
	if next == len(s.prices) || !s.promising(next, paid) {
		return
	}
	if !s.must[next] {
		s.search(next+1, paid)
	}
	if s.must[next] || s.try != nil || s.helps(next) {
		s.take(next, 1)
		s.search(next+1, paid.plus(s.prices[next]))
		s.take(next, -1)
	}
}

func (s *selection) limit() int {
	if len(s.prices) <= exactUpTo {
		return maxVisits
	}
	return maxVisitsBeyond
}

// settle takes a choice that leaves enough room for the best if it is; false: it will not do, more may.
func (s *selection) settle(next int, paid price) bool {
	if slices.Contains(s.must[next:], true) {
		return false
	}
	difference := paid.compare(s.worth)
	if difference > 0 || difference == 0 && s.inOrder {
		return true
	}
	if s.try != nil {
		s.tries++
		if !s.try(s.broken) {
			return false
		}
	}
	s.best, s.worth, s.inOrder = slices.Clone(s.broken), paid, true
	return true
}

// take breaks a job (1) or gives its place back (-1).
func (s *selection) take(i int, sign int64) {
	s.broken[i] = sign > 0
	for r, amounts := range s.amounts {
		s.left[r] -= sign * amounts[i]
	}
}

func (s *selection) covered(left []int64) bool {
	for _, amount := range left {
		if amount > 0 {
			return false
		}
	}
	return true
}

func (s *selection) helps(i int) bool {
	for r, left := range s.left {
		if left > 0 && s.amounts[r][i] > 0 {
			return true
		}
	}
	return false
}

// promising tells whether the jobs from `next` on may complete the choice to a better one than the best.
func (s *selection) promising(next int, paid price) bool {
	for criterion := range criteria {
		least, possible := s.atLeast(criterion, next, s.left, s.worth[protected])
		if !possible {
			return false
		}
		total := paid[criterion] + least
		if criterion == protected {
			total = min(1, total)
		}
		if difference := compareFigures(total, s.worth[criterion]); difference != 0 {
			return difference < 0
		}
	}
	return !s.inOrder
}

// atLeast returns a lower bound, by one criterion, of what ending the rest of the shortage by jobs from `next` on
// costs, non-preemptible ones only where `mayProtected` is 1; and whether these can end it at all.
//
// Per resource the smallest price is that of a knapsack whose items may be cut: cheapest per amount first. No choice
// of whole jobs costs less, and none that also ends the other shortages.
func (s *selection) atLeast(criterion, next int, left []int64, mayProtected float64) (least float64, possible bool) {
	for r, missing := range left {
		if missing <= 0 {
			continue
		}
		sum, amounts := 0.0, s.amounts[r]
		for _, i := range s.order(criterion, r) {
			if i < next || s.prices[i][protected] > mayProtected {
				continue
			}
			if amounts[i] >= missing {
				sum += s.prices[i][criterion] * float64(missing) / float64(amounts[i])
				missing = 0
				break
			}
			sum += s.prices[i][criterion]
			missing -= amounts[i]
		}
		if missing > 0 {
			return 0, false
		}
		least = max(least, sum)
	}
	switch criterion {
	case protected:
		least = min(1, math.Ceil(least-1e-6))
	case newlyBroken, removals:
		least = math.Ceil(least - 1e-6) // counted, not measured
	}
	return least, true
}

// order returns the jobs that have something of a resource, by price per amount, cheapest first.
func (s *selection) order(criterion, resource int) []int {
	if s.orders[criterion] == nil {
		s.orders[criterion] = make([][]int, len(s.amounts))
	}
	if known := s.orders[criterion][resource]; known != nil {
		return known
	}
	amounts := s.amounts[resource]
	order := make([]int, 0, len(amounts))
	for i, amount := range amounts {
		if amount > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		for k := criterion; k < criteria; k++ {
			difference := cmp.Compare(s.prices[a][k]*float64(amounts[b]), s.prices[b][k]*float64(amounts[a]))
			if difference != 0 {
				return difference
			}
		}
		return cmp.Compare(b, a)
	})
	s.orders[criterion][resource] = order
	return order
}

// --- where the search begins ---

// byImportance lets jobs keep their places, the most important first, as long as enough room is left.
func (s *selection) byImportance() []bool {
	broken, left := make([]bool, len(s.prices)), slices.Clone(s.missing)
	for i := range broken {
		broken[i] = true
		for r := range left {
			left[r] -= s.amounts[r][i]
		}
	}
	s.giveBack(broken, left)
	return broken
}

// byDensity is the greedy algorithm of Csirik, Frenk, Labbé and Zhang (Heuristics for the 0-1 min-knapsack problem,
// Acta Cybernetica 10, 1991), one resource after the other: jobs are taken by price per amount, cheapest first; one
// that ends the shortage together with those taken is a candidate, the others are taken; the cheapest candidate wins.
//
// For one resource it pays at most twice the least price: of the jobs in the best choice, look at the first
// candidate. It costs no more than that choice. What was taken before it is cheaper per amount than whatever the best
// choice has instead, and less, as it did not end the shortage; so it costs no more either. What is left of the other
// resources' shortages costs no more than ending all of them, so with R of them at most 2R times the least CPU-seconds
// are paid. Non-preemptible jobs are left alone where the others are enough, as in the best choice.
func (s *selection) byDensity() []bool {
	broken, left := make([]bool, len(s.prices)), slices.Clone(s.missing)
	mayProtected := s.needsProtected()
	for r := range left {
		if left[r] <= 0 {
			continue
		}
		var taken, best []int
		var paid, worth price
		missing := left[r]
		for _, i := range s.order(atRisk, r) {
			if broken[i] || s.prices[i][protected] > mayProtected {
				continue
			}
			if total := paid.plus(s.prices[i]); s.amounts[r][i] >= missing {
				if best == nil || total.compare(worth) < 0 {
					best, worth = append(slices.Clone(taken), i), total
				}
			} else {
				taken, paid = append(taken, i), total
				missing -= s.amounts[r][i]
			}
		}
		for _, i := range best {
			broken[i] = true
			for other := range left {
				left[other] -= s.amounts[other][i]
			}
		}
	}
	s.giveBack(broken, left)
	return broken
}

// needsProtected returns 1 where preemptible jobs alone do not end the shortage, else 0.
func (s *selection) needsProtected() float64 {
	for r, missing := range s.missing {
		for i, amount := range s.amounts[r] {
			if s.prices[i][protected] == 0 {
				missing -= amount
			}
		}
		if missing > 0 {
			return 1
		}
	}
	return 0
}

// giveBack lets broken jobs keep their places that are not needed, the most important first. left has what is
// missing: what there is too much of is negative.
func (s *selection) giveBack(broken []bool, left []int64) {
	for i, gone := range broken {
		if !gone || !s.spares(i, left) {
			continue
		}
		broken[i] = false
		for r := range left {
			left[r] += s.amounts[r][i]
		}
	}
}

func (s *selection) spares(i int, left []int64) bool {
	for r, amount := range left {
		if amount+s.amounts[r][i] > 0 {
			return false
		}
	}
	return true
}
