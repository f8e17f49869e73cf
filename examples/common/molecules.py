"""Organic molecules, which RDKit builds from SMILES (pip install rdkit)."""
from typing import Any

from ase import Atoms

SMILES = {
    "ethanol": "CCO", "dimethyl ether": "COC", "N-methylacetamide": "CC(=O)NC",
    "alanine dipeptide": "CC(=O)NC(C)C(=O)NC", "urea": "NC(=O)N", "uracil": "O=c1cc[nH]c(=O)[nH]1",
    "benzene": "c1ccccc1", "naphthalene": "c1ccc2ccccc2c1",
    "furan": "c1ccoc1", "thiophene": "c1ccsc1", "caffeine": "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "paracetamol": "CC(=O)Nc1ccc(O)cc1", "aspirin": "CC(=O)Oc1ccccc1C(=O)O", "nitrobenzene": "O=[N+]([O-])c1ccccc1",
    "methanesulfonamide": "CS(=O)(=O)N", "2-butyne": "CC#CC", "acetonitrile": "CC#N", "cyclopropane": "C1CC1",
    "norbornane": "C1CC2CCC1C2", "acetate": "CC(=O)[O-]", "guanidinium": "NC(=[NH2+])N",
    "dimethyl phosphate": "COP(=O)(O)OC",
}
# Drugs, neutral; without F, S and Cl they are within what ANI-1ccx knows.
DRUGS = {
    "benzocaine": "CCOC(=O)c1ccc(N)cc1", "carbamazepine": "NC(=O)N1c2ccccc2C=Cc2ccccc21",
    "chlorzoxazone": "O=c1[nH]c2cc(Cl)ccc2o1", "dapsone": "Nc1ccc(cc1)S(=O)(=O)c1ccc(N)cc1",
    "diazepam": "CN1C(=O)CN=C(c2ccccc2)c2cc(Cl)ccc21", "dopamine": "NCCc1ccc(O)c(O)c1",
    "fluorouracil": "O=c1[nH]cc(F)c(=O)[nH]1", "ibuprofen": "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
    "isoniazid": "NNC(=O)c1ccncc1", "ketoprofen": "CC(C(=O)O)c1cccc(c1)C(=O)c1ccccc1",
    "lidocaine": "CCN(CC)CC(=O)Nc1c(C)cccc1C", "melatonin": "CC(=O)NCCc1c[nH]c2ccc(OC)cc12",
    "naproxen": "COc1ccc2cc(ccc2c1)C(C)C(=O)O", "nicotine": "CN1CCCC1c1cccnc1",
    "phenacetin": "CCOc1ccc(NC(C)=O)cc1", "phenazone": "Cc1cc(=O)n(c2ccccc2)n1C",
    "phenobarbital": "CCC1(c2ccccc2)C(=O)NC(=O)NC1=O", "procaine": "CCN(CC)CCOC(=O)c1ccc(N)cc1",
    "phenytoin": "O=C1NC(=O)C(N1)(c1ccccc1)c1ccccc1", "salicylic acid": "O=C(O)c1ccccc1O",
    "sulfanilamide": "Nc1ccc(cc1)S(N)(=O)=O", "theophylline": "Cn1c2nc[nH]c2c(=O)n(C)c1=O",
}
# About a bond that is single and in no ring, and does not turn a methyl group or what is linear.
TURNS = "[!$([CX4H3]);!$(*#*);!D1]-&!@[!$([CX4H3]);!$(*#*);!D1]"


def read_smiles(name: str) -> Any:
    """RDKit's molecule, with hydrogens, near a minimum."""
    from rdkit import Chem
    from rdkit.Chem.rdDistGeom import EmbedMolecule
    from rdkit.Chem.rdForceFieldHelpers import UFFOptimizeMolecule
    molecule = Chem.AddHs(Chem.MolFromSmiles((SMILES | DRUGS)[name]))
    EmbedMolecule(molecule, randomSeed=1)
    UFFOptimizeMolecule(molecule)
    return molecule


def build_atoms(name: str) -> Atoms:
    molecule = read_smiles(name)
    return Atoms([atom.GetSymbol() for atom in molecule.GetAtoms()], molecule.GetConformer().GetPositions())


def find_torsions(name: str) -> list[tuple[int, ...]]:
    """Four atoms about each bond that can be turned; those at the ends are the first of their neighbours."""
    from rdkit import Chem
    molecule = read_smiles(name)
    found = []
    for ends in molecule.GetSubstructMatches(Chem.MolFromSmarts(TURNS)):
        first, last = (next(atom.GetIdx() for atom in molecule.GetAtomWithIdx(i).GetNeighbors()
                            if atom.GetIdx() not in ends) for i in ends)
        found.append((first, *ends, last))
    return found
