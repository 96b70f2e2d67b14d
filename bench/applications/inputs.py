"""bench/applications/inputs.py: the inputs of the applications, as {name of the file: text}. `short` ones take a second
or less on two CPUs, the others a few.

Each is written for this benchmark and needs no data but what comes with the application's own packages. The potential
of silicon is the analytic one of Hartwigsen, Goedecker and Hutter (Phys. Rev. B 58, 3641), seven numbers."""

SILICON = """silicon, four valence electrons, local density
14 4 980801  charge of the nucleus, of the ion, date
10 1 1 0 2001 0  format HGH-K, Perdew-Zunger, highest l, local l, -, -
0.44 1 -7.33610297  radius, coefficients of the local part
2  values of l
0.42273813 2 5.90692831 -1.26189397  l = 0: radius, projectors, h11, h12
3.25819622  h22
0.48427842 1 2.72701346  l = 1: radius, projectors, h11
0  k11
"""


def lammps(short, _):
    """Charged particles: neighbours' forces go to the next rank, the long-range part is a distributed FFT."""
    return {"in.salt": f"""units lj
atom_style charge
lattice fcc 0.6
region box block 0 10 0 10 0 10
create_box 2 box
create_atoms 1 box
set type 1 type/fraction 2 0.5 4711
mass * 1.0
set type 1 charge 0.5
set type 2 charge -0.5
velocity all create 1.5 8237 loop geom
pair_style lj/cut/coul/long 2.5 3.0
pair_coeff * * 1.0 1.0
kspace_style pppm 1.0e-4
kspace_modify gewald 0.9 mesh 24 24 24
neighbor 0.3 bin
fix move all nve
thermo_style custom step temp epair etotal press
thermo_modify format float %.12g
thermo {10 if short else 50}
run {60 if short else 300}
"""}


def espresso(short, _):
    """The conventional cell of silicon, with an atom out of place, so that there are forces."""
    corners = [(0, 0, 0), (0, .5, .5), (.5, 0, .5), (.5, .5, 0)]
    places = [(.02, 0, 0), *corners[1:], *((x + .25, y + .25, z + .25) for x, y, z in corners)]  # one is displaced
    rows = "\n".join(f"Si {x} {y} {z}" for x, y, z in places)
    return {"si.gth": SILICON, "si.in": f"""&control
 calculation='scf', prefix='si', pseudo_dir='.', outdir='.', disk_io='none', tprnfor=.true.
/
&system
 ibrav=1, celldm(1)=10.2, nat=8, ntyp=1, ecutwfc={12 if short else 20}, nosym=.true.
/
&electrons
 conv_thr=1d-12
/
ATOMIC_SPECIES
Si 28.086 si.gth
ATOMIC_POSITIONS crystal
{rows}
K_POINTS automatic
2 2 2 1 1 1
"""}


def abinit(short, _):
    return {"si.gth": SILICON, "si.abi": f"""pp_dirpath "./"
pseudos "si.gth"
acell 3*10.2
rprim 0 0.5 0.5  0.5 0 0.5  0.5 0.5 0
ntypat 1  znucl 14  natom 2  typat 2*1
xred 0 0 0  0.25 0.25 0.25
ecut {10 if short else 14}
ngkpt {"2 2 2" if short else "3 3 3"}  nshiftk 1  shiftk 0 0 0
kptopt 3
nband 8
nstep 40  toldfe 1.0d-11
prtwf 0  prtden 0  prteig 0  prtebands 0  prtgsr 0
"""}


def nwchem(short, _):
    """Water molecules; the blocks of the distributed matrices are got and accumulated one-sidedly."""
    water = ((0, 0, 0.1173), (0, 0.7572, -0.4692), (0, -0.7572, -0.4692))
    atoms = "\n".join(f" {'O' if i == 0 else 'H'} {x} {y} {z + 3.0 * number}" for number in range(1 if short else 2)
                      for i, (x, y, z) in enumerate(water))
    return {"water.nw": f"""start water
memory 400 mb
geometry units angstroms noautosym
{atoms}
end
basis
 * library 6-31g*
end
dft
 direct
 xc b3lyp
 convergence energy 1e-8
end
task dft gradient
"""}


def hpcc(short, ranks):
    """The lines are known by their order; the words behind the values are for the reader."""
    size, block = (300, 40) if short else (800, 64)
    lines = [("matrices for HPL, written for bench/applications", ""), ("", ""), ("HPL.out", "file"),
             (6, "standard output"), (1, "sizes"), (size, "N"), (1, "blocks"), (block, "NB"), (0, "by rows"),
             (1, "grids"), (1, "P"), (ranks, "Q"), (16.0, "threshold"), (1, "factorizations"), (1, "Crout"),
             (1, "stopping"), (4, "NBMIN"), (1, "panels"), (2, "NDIV"), (1, "recursive"), (2, "right-looking"),
             (1, "broadcasts"), (0, "ring"), (1, "depths"), (0, "look-ahead"), (2, "swapping"), (64, "threshold"),
             (0, "L1"), (0, "U"), (1, "equilibration"), (8, "alignment"), ("-", "separator"),
             (0, "more sizes for PTRANS"), (size, "-"), (0, "more blocks for PTRANS"), (block, "-")]
    return {"hpccinf.txt": "".join(f"{value} {word}".strip() + "\n" for value, word in lines)}


def poisson(short, _):
    return {"poisson.ini": "384 60\n" if short else "768 150\n"}


def sums(short, _):
    return {"sums.ini": "100000 15\n" if short else "300000 40\n"}
