package precheck

// ink looks for something on a page that comes row by row. The page is divided into cells whose average is compared with the paper, which is
// the average in the middle: so the grain of a scanner averages out, and a stroke does not, however thin it is.
type ink struct {
	width, height int
	channels      int // 1, 3 or 4 values of 8 bits for each pixel; each is looked at by itself
	scale         int // pixels of a cell's side

	rows     int   // in the present row of cells
	done     int   // rows in all
	sums     []int // of the present row of cells
	averages [4][256]int
}

const (
	// inkCells is how many cells a side is divided into at most. On a page of A4 that is finer than a tenth of a millimetre.
	inkCells = 2000
	// leastContrast and mostContrast are how far ink is from the paper, of 255: on paper without grain, and at most. Light print on clean paper is
	// print.
	leastContrast, mostContrast = 6, 24
	// grain is how many standard deviations of the paper's own shade are no ink.
	grain = 6
)

// specks is how many cells may differ on an empty page: dust. It is less than a dot of a small font takes on a page of that size.
func (k *ink) specks() int {
	cells := (k.width / k.scale) * (k.height / k.scale)
	return 2 + cells/500_000
}

func newInk(width, height, channels int) *ink {
	k := &ink{width: width, height: height, channels: channels, scale: 1 + (max(width, height)-1)/inkCells}
	k.sums = make([]int, (width+k.scale-1)/k.scale*channels)
	return k
}

// add takes the next row and reports whether there is ink by now.
func (k *ink) add(row []byte) bool {
	for x := range k.width {
		cell := x / k.scale * k.channels
		for c := range k.channels {
			k.sums[cell+c] += int(row[x*k.channels+c])
		}
	}
	k.rows++
	k.done++
	if k.rows < k.scale && k.done < k.height {
		return false
	}
	k.settle()
	return k.found()
}

// settle counts the cells of a row that is complete.
func (k *ink) settle() {
	last := (k.width - 1) / k.scale
	for cell := 0; cell <= last; cell++ {
		columns := k.scale
		if cell == last {
			columns = k.width - last*k.scale
		}
		for c := range k.channels {
			k.averages[c][k.sums[cell*k.channels+c]/(columns*k.rows)]++
		}
	}
	clear(k.sums)
	k.rows = 0
}

// found reports whether more cells differ from the paper than dust makes. The paper is the shade in the middle of all; how far it goes is told by the
// two thirds of the cells around it, in which ink has no share.
func (k *ink) found() bool {
	for c := range k.channels {
		all := 0
		for _, n := range k.averages[c] {
			all += n
		}
		paper := k.shade(c, all/2)
		dark, light := k.shade(c, all*16/100), k.shade(c, all*84/100)
		contrast := leastContrast
		if !k.tones(c, dark, light, all) {
			contrast = min(max(int(grain*float64(light-dark)/2), leastContrast), mostContrast)
		}
		within := 0
		for _, n := range k.averages[c][max(0, paper-contrast):min(256, paper+contrast+1)] {
			within += n
		}
		if all-within > k.specks() {
			return true
		}
	}
	return false
}

// tones reports whether some shade between two is missing: grain and shadows have all of them, and what has some only was drawn, such as a column in a
// pale colour, on which there may be white print.
func (k *ink) tones(channel, dark, light, all int) bool {
	const rare = 2000
	for _, n := range k.averages[channel][dark:light] {
		if n < all/rare {
			return true
		}
	}
	return false
}

// shade is the shade of the cell with that rank, from the darkest.
func (k *ink) shade(channel, rank int) int {
	for shade, n := range k.averages[channel] {
		if rank -= n; rank < 0 {
			return shade
		}
	}
	return 255
}
